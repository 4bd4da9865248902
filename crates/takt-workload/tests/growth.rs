//! The memory that reading requests grows no faster than the text.
//!
//! It is counted in bytes, for a text and for one of twice the length: what is copied, collected or
//! printed once more for each line, or for each fault, makes that four times as much. Time would be a measurement.

use std::alloc::{GlobalAlloc, Layout, System as Heap};
use std::cell::Cell;
use takt_workload::{MAX_DIAGNOSTICS, Options, Source, load};

struct Counting;

thread_local! {
    /// Per thread, so that other tests do not count.
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    BYTES.with(|sum| sum.set(sum.get() + bytes));
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { Heap.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { Heap.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        unsafe { Heap.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn source(text: String) -> Source {
    Source { name: "test.yaml".to_owned(), text }
}

/// The memory that `read` requests when it is given `size`, in bytes.
fn bytes(size: usize, read: &dyn Fn(usize)) -> usize {
    let before = BYTES.with(Cell::get);
    read(size);
    BYTES.with(Cell::get) - before
}

/// Twice the size takes twice the memory: a little more where a table grows into its next power of two, and never four times.
#[track_caller]
fn in_proportion(what: &str, size: usize, read: &dyn Fn(usize)) {
    let (once, twice) = (bytes(size, read), bytes(2 * size, read));
    assert!(twice < 3 * once, "{what}: {once} bytes for {size}, {twice} for twice as many");
}

#[test]
fn processes() {
    in_proportion("processes", 5_000, &|n| {
        let processes: String = (0..n).map(|i| format!("      - {{cmd: ./p{i}, budget: 1}}\n")).collect();
        let text = format!(
            "partitions:\n  - name: A\n    processes:\n{processes}windows:\n  - {{length: 20000, cpu: 0, be_partition: A}}\n"
        );
        assert_eq!(load(source(text), &Options::default()).unwrap().tasks.len(), n);
    });
}

#[test]
fn partitions() {
    in_proportion("partitions and windows", 2_000, &|n| {
        let partitions: String =
            (0..n).map(|i| format!("  - {{name: P{i}, processes: [{{cmd: ./p{i}, budget: 1}}]}}\n")).collect();
        let windows: String = (0..n).map(|i| format!("  - {{length: 2, cpu: 0, sc_partition: P{i}}}\n")).collect();
        let text = format!("partitions:\n{partitions}windows:\n{windows}");
        assert_eq!(load(source(text), &Options::default()).unwrap().partitions.len(), n);
    });
}

#[test]
fn hostile_texts() {
    for unit in ["[", "{", "- ", "? ", "&a [", "a: &a {", "*", "\"", "|\n", "a: 1\n", "a:\n ", "[],", "!", "%a\n", "# "]
    {
        in_proportion(unit, 25_000, &|n| {
            let source = source(unit.repeat(n));
            let faults = load(source.clone(), &Options::default()).unwrap_err();
            assert!(faults.len() <= MAX_DIAGNOSTICS);
            faults.iter().for_each(|f| assert!(f.render(&source, false).len() < 10_000, "{unit:?}"));
        });
    }
}

#[test]
#[should_panic(expected = "for twice as many")]
fn quadratic_growth_is_detected() {
    in_proportion("copies of all that came before", 1_000, &|n| {
        drop((0..n).map(|i| "x".repeat(i)).collect::<Vec<_>>())
    });
}
