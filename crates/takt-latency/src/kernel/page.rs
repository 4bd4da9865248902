//! Pages of the ring: records with time stamps. Source: `include/linux/ring_buffer.h` and `Documentation/trace/ring-buffer-map.rst` of Linux.

use super::format::{Head, Unexpected};

/// The types of records that are no data; smaller types are the length of the data in words.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// The part of `commit` that is a length; the rest are flags.
const LENGTH: i64 = (1 << 27) - 1;
/// An absolute time stamp has so many bits, and takes the others from the stamp before it.
const STAMP_BITS: u32 = 59;

/// Calls `each` with the instant and the bytes of each record of a page. O(bytes).
pub(super) fn records(head: Head, page: &[u8], mut each: impl FnMut(i64, &[u8])) -> Result<(), Unexpected> {
    let short = || Unexpected("a page ends early".into());
    let mut at = head.timestamp.number(page).ok_or_else(short)?;
    let length = (head.commit.number(page).ok_or_else(short)? & LENGTH) as usize;
    let data = page.get(head.data..).and_then(|data| data.get(..length)).ok_or_else(short)?;
    let word = |place: usize| -> Option<u32> { Some(u32::from_le_bytes(data.get(place..place + 4)?.try_into().ok()?)) };
    let mut place = 0;
    while place + 4 <= data.len() {
        let first = word(place).ok_or_else(short)?;
        let (kind, delta) = (first & 31, i64::from(first >> 5));
        let next = || word(place + 4).ok_or_else(short);
        match kind {
            // The rest of the page is empty.
            PADDING if delta == 0 => break,
            PADDING => {
                at += delta;
                place += 4 + next()?.max(4) as usize;
            }
            TIME_EXTEND => {
                at += delta + (i64::from(next()?) << 27);
                place += 8;
            }
            TIME_STAMP => {
                let stamp = delta + (i64::from(next()?) << 27);
                at = (at >> STAMP_BITS << STAMP_BITS) | stamp;
                place += 8;
            }
            _ => {
                at += delta;
                let (begin, length) = match kind {
                    0 => (place + 8, next()?.checked_sub(4).ok_or_else(short)? as usize),
                    words => (place + 4, words as usize * 4),
                };
                each(at, data.get(begin..begin + length).ok_or_else(short)?);
                place = begin + length.next_multiple_of(4);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";

    fn page(words: &[u32]) -> Vec<u8> {
        let mut page = 1000u64.to_le_bytes().to_vec();
        // A flag beyond the length says that records before were lost.
        page.extend(((1u64 << 31) | (words.len() as u64 * 4)).to_le_bytes());
        page.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        page
    }

    fn read(words: &[u32]) -> Result<Vec<(i64, Vec<u8>)>, Unexpected> {
        let mut all = Vec::new();
        records(Head::read(HEAD).unwrap(), &page(words), |at, record| all.push((at, record.to_vec())))?;
        Ok(all)
    }

    #[test]
    fn records_of_every_type_have_their_instants() {
        let of = |kind: u32, delta: u32| kind | (delta << 5);
        let words = [
            of(1, 5),
            0x0403_0201,
            of(TIME_EXTEND, 1),
            2,
            of(0, 10),
            8,
            7,
            of(PADDING, 3),
            4,
            of(TIME_STAMP, 77),
            1,
            of(1, 0),
            9,
            of(PADDING, 0),
            123,
        ];
        let later = 1005 + 1 + (2 << 27) + 10;
        assert_eq!(
            read(&words).unwrap(),
            [(1005, vec![1, 2, 3, 4]), (later, vec![7, 0, 0, 0]), (77 + (1 << 27), vec![9, 0, 0, 0])]
        );
        assert!(read(&[of(2, 1), 0]).is_err(), "a record beyond the page");
        assert!(read(&[of(0, 1), 3]).is_err(), "a length that is less than its own word");
    }

    #[test]
    fn no_bytes_make_the_reader_fail() {
        use proptest::prelude::*;
        takt_testing::for_all(300, prop::collection::vec(any::<u32>(), 0..40), |words| {
            let _ = read(&words);
            Ok(())
        });
    }
}
