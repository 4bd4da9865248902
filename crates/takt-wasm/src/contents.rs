//! The contents that a module may have, and the costs of its bulk instructions.
//!
//! A module that is accepted needs a bounded amount of memory: to compile it, to instantiate it, and while it runs. `wasmi` takes the same fuel for
//! an addition as for 64 bytes that `memory.fill` or `memory.copy` writes, which may take ten times as long. Both are replaced by calls of functions
//! that first use fuel according to the length. A function with many locals, which each call clears, begins with such a call, too.

use crate::fault::LoadError;
use std::sync::OnceLock;
use wasm_encoder::reencode::{self, Reencode};
use wasm_encoder::{BlockType, CodeSection, Function, FunctionSection, Instruction, TypeSection, ValType};
use wasmparser::{Operator, Parser, Payload, ValidPayload, Validator, WasmFeatures};

/// The most memory that a module may have while its policy is built, in bytes.
pub(crate) const MEMORY: u64 = 64 << 20;
/// Memory that is left for all else, in bytes.
const REST: u64 = 1 << 20;
/// The most entries of all tables, and of all element segments. Each one takes 8 bytes.
pub(crate) const ENTRIES: u64 = 1 << 16;
/// The most entries of a section.
const TYPES: u32 = 10_000;
const FUNCTIONS: u32 = 20_000;
const GLOBALS: u32 = 1_000;
pub(crate) const TABLES: u32 = 4;
const SEGMENTS: u32 = 1_000;
const EXPORTS: u32 = 1_000;
/// The most parameters or results of a function, which calls copy.
const PARAMETERS: usize = 100;
/// The most locals of a function, which calls clear. More than [`FREE_LOCALS`] cost fuel.
const LOCALS: u64 = 1_000;
const FREE_LOCALS: u32 = 16;
/// The most bytes of all functions. A module with all of Takt's policies has a quarter.
const CODE: u64 = 4 << 20;
/// Bytes that a byte of a function takes at most until it is compiled.
const COMPILED: u64 = 32;
/// The most blocks in each other.
const NESTING: usize = 1_000;
/// So many bytes of a bulk instruction cost a turn of a loop, besides a unit of fuel for each 64 of them.
const BYTES_PER_TURN_LOG2: i32 = 4;

/// WebAssembly as compilers emit it, with one memory of 32 bits.
const FEATURES: WasmFeatures = WasmFeatures::WASM2
    .difference(WasmFeatures::SIMD)
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::EXTENDED_CONST);

/// The module as it is run.
///
/// # Errors
/// It is no WebAssembly module, imports something, or has too much of something.
pub(crate) fn accepted(bytes: &[u8]) -> Result<Vec<u8>, LoadError> {
    // The sizes first: the validation of a module takes memory, too.
    let Sizes { types, functions, code } = measure(bytes)?;
    // An allocation that fails later would end the process.
    find_memory(2 * bytes.len() as u64 + COMPILED * code)?;
    validate(bytes)?;
    let mut module = wasm_encoder::Module::new();
    let mut charged = Charged { types, functions };
    charged.parse_core_module(&mut module, Parser::new(0), bytes).map_err(|error| match error {
        reencode::Error::UserError(instruction) => LoadError::Instruction(instruction),
        error => LoadError::NotWasm(error.to_string()),
    })?;
    Ok(module.finish())
}

static ALLOCATES: OnceLock<fn(usize) -> bool> = OnceLock::new();

/// Sets the function that says whether this process can allocate so many bytes. In a process with locked memory it should not touch their pages, as an
/// allocation would. The first call holds.
pub fn ask_for_memory_by(allocates: fn(usize) -> bool) {
    let _ = ALLOCATES.set(allocates);
}

/// Whether this process can allocate so many bytes, and the [`REST`].
///
/// # Errors
/// It cannot.
pub(crate) fn find_memory(bytes: u64) -> Result<(), LoadError> {
    let wanted = usize::try_from(bytes.saturating_add(REST)).unwrap_or(usize::MAX);
    let allocates = ALLOCATES.get().copied().unwrap_or(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok());
    if allocates(wanted) { Ok(()) } else { Err(LoadError::NoMemory((wanted >> 20) as u64)) }
}

fn not_wasm(error: impl ToString) -> LoadError {
    LoadError::NotWasm(error.to_string())
}

/// At most so many of something.
fn bounded(count: impl Into<u64>, most: impl Into<u64>, what: &'static str) -> Result<(), LoadError> {
    let (count, most) = (count.into(), most.into());
    if count > most { Err(LoadError::TooMuch { what, count, most }) } else { Ok(()) }
}

/// The sizes on which the memory and the form of the accepted module depend.
struct Sizes {
    types: u32,
    functions: u32,
    /// Bytes of all functions.
    code: u64,
}

/// Compares the sizes of all parts with their bounds. O(size of the module).
fn measure(bytes: &[u8]) -> Result<Sizes, LoadError> {
    let (mut types, mut functions, mut code) = (0, 0, 0);
    let (mut table_entries, mut items) = (0u64, 0u64);
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(not_wasm)? {
            Payload::Version { encoding: wasmparser::Encoding::Component, .. } => {
                return Err(LoadError::NotWasm("it is a component".to_owned()));
            }
            Payload::TypeSection(section) => {
                types = section.count();
                bounded(types, TYPES, "types")?;
                for ty in section.into_iter_err_on_gc_types() {
                    let ty = ty.map_err(not_wasm)?;
                    bounded(ty.params().len() as u64, PARAMETERS as u64, "parameters of a function")?;
                    bounded(ty.results().len() as u64, PARAMETERS as u64, "results of a function")?;
                }
            }
            Payload::ImportSection(section) => {
                if let Some(import) = section.into_imports().next() {
                    let import = import.map_err(not_wasm)?;
                    return Err(LoadError::Imports(format!("{}.{}", import.module, import.name)));
                }
            }
            Payload::FunctionSection(section) => {
                functions = section.count();
                bounded(functions, FUNCTIONS, "functions")?;
            }
            Payload::TableSection(section) => {
                bounded(section.count(), TABLES, "tables")?;
                for table in section {
                    table_entries = table_entries.saturating_add(table.map_err(not_wasm)?.ty.initial);
                }
                bounded(table_entries, ENTRIES, "entries of tables")?;
            }
            Payload::MemorySection(section) => {
                bounded(section.count(), 1u32, "memories")?;
                for memory in section {
                    let size = memory.map_err(not_wasm)?.initial.saturating_mul(64 << 10);
                    bounded(size, MEMORY, "bytes of memory")?;
                }
            }
            Payload::GlobalSection(section) => bounded(section.count(), GLOBALS, "globals")?,
            Payload::ExportSection(section) => bounded(section.count(), EXPORTS, "exports")?,
            Payload::ElementSection(section) => {
                bounded(section.count(), SEGMENTS, "element segments")?;
                for element in section {
                    items += u64::from(match element.map_err(not_wasm)?.items {
                        wasmparser::ElementItems::Functions(items) => items.count(),
                        wasmparser::ElementItems::Expressions(_, items) => items.count(),
                    });
                    bounded(items, ENTRIES, "entries of element segments")?;
                }
            }
            Payload::DataSection(section) => bounded(section.count(), SEGMENTS, "data segments")?,
            Payload::CodeSectionStart { size, .. } => {
                code = u64::from(size);
                bounded(code, CODE, "bytes of functions")?;
            }
            Payload::CodeSectionEntry(body) => {
                let mut locals = 0u64;
                for group in body.get_locals_reader().map_err(not_wasm)? {
                    locals += u64::from(group.map_err(not_wasm)?.0);
                }
                bounded(locals, LOCALS, "locals of a function")?;
                bounded(nesting(&body)? as u64, NESTING as u64, "blocks in each other")?;
            }
            _ => {}
        }
    }
    Ok(Sizes { types, functions, code })
}

/// How many blocks of a function are in each other.
fn nesting(body: &wasmparser::FunctionBody<'_>) -> Result<usize, LoadError> {
    let (mut depth, mut most) = (0usize, 0);
    for operator in body.get_operators_reader().map_err(not_wasm)? {
        match operator.map_err(not_wasm)? {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => depth += 1,
            Operator::End => depth = depth.saturating_sub(1),
            _ => {}
        }
        most = most.max(depth);
    }
    Ok(most)
}

fn validate(bytes: &[u8]) -> Result<(), LoadError> {
    let mut validator = Validator::new_with_features(FEATURES);
    let mut allocations = wasmparser::FuncValidatorAllocations::default();
    for payload in Parser::new(0).parse_all(bytes) {
        if let ValidPayload::Func(function, body) = validator.payload(&payload.map_err(not_wasm)?).map_err(not_wasm)? {
            let mut function = function.into_validator(allocations);
            function.validate(&body).map_err(not_wasm)?;
            allocations = function.into_allocations();
        }
    }
    Ok(())
}

/// Writes the module with the costs of its bulk instructions and its locals. The three functions, and their types, are behind all others.
struct Charged {
    types: u32,
    functions: u32,
}

impl Charged {
    /// Uses fuel for so many turns of a loop.
    fn turns() -> Function {
        let mut function = Function::new([]);
        for instruction in [
            Instruction::Loop(BlockType::Empty),
            Instruction::LocalGet(0),
            Instruction::I32Const(1),
            Instruction::I32Sub,
            Instruction::LocalTee(0),
            Instruction::BrIf(0),
            Instruction::End,
            Instruction::End,
        ] {
            function.instruction(&instruction);
        }
        function
    }

    /// Fills or copies memory, as `instruction` does, and uses fuel according to the length.
    fn bulk(instruction: &Instruction<'_>) -> Function {
        const LENGTH: u32 = 2;
        const TURNS: u32 = 3;
        let mut function = Function::new([(1, ValType::I32)]);
        for instruction in [
            Instruction::LocalGet(LENGTH),
            Instruction::I32Const(BYTES_PER_TURN_LOG2),
            Instruction::I32ShrU,
            Instruction::LocalTee(TURNS),
            Instruction::If(BlockType::Empty),
            Instruction::Loop(BlockType::Empty),
            Instruction::LocalGet(TURNS),
            Instruction::I32Const(1),
            Instruction::I32Sub,
            Instruction::LocalTee(TURNS),
            Instruction::BrIf(0),
            Instruction::End,
            Instruction::End,
            Instruction::LocalGet(0),
            Instruction::LocalGet(1),
            Instruction::LocalGet(LENGTH),
        ] {
            function.instruction(&instruction);
        }
        function.instruction(instruction);
        function.instruction(&Instruction::End);
        function
    }
}

impl Reencode for Charged {
    type Error = &'static str;

    fn parse_type_section(
        &mut self,
        types: &mut TypeSection,
        section: wasmparser::TypeSectionReader<'_>,
    ) -> Result<(), reencode::Error<&'static str>> {
        reencode::utils::parse_type_section(self, types, section)?;
        types.ty().function([ValType::I32; 3], []);
        types.ty().function([ValType::I32], []);
        Ok(())
    }

    fn parse_function_section(
        &mut self,
        functions: &mut FunctionSection,
        section: wasmparser::FunctionSectionReader<'_>,
    ) -> Result<(), reencode::Error<&'static str>> {
        reencode::utils::parse_function_section(self, functions, section)?;
        functions.function(self.types).function(self.types).function(self.types + 1);
        Ok(())
    }

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        section: wasmparser::CodeSectionReader<'_>,
    ) -> Result<(), reencode::Error<&'static str>> {
        reencode::utils::parse_code_section(self, code, section)?;
        code.function(&Self::bulk(&Instruction::MemoryFill(0)));
        code.function(&Self::bulk(&Instruction::MemoryCopy { src_mem: 0, dst_mem: 0 }));
        code.function(&Self::turns());
        Ok(())
    }

    fn parse_function_body(
        &mut self,
        code: &mut CodeSection,
        body: wasmparser::FunctionBody<'_>,
    ) -> Result<(), reencode::Error<&'static str>> {
        let mut function = self.new_function_with_parsed_locals(&body)?;
        let mut locals = 0;
        for group in body.get_locals_reader()? {
            locals += group?.0;
        }
        if locals > FREE_LOCALS {
            // A local has 8 bytes.
            function.instruction(&Instruction::I32Const((locals >> (BYTES_PER_TURN_LOG2 - 3)) as i32));
            function.instruction(&Instruction::Call(self.functions + 2));
        }
        let mut operators = body.get_operators_reader()?;
        while !operators.eof() {
            function.instruction(&self.parse_instruction(&mut operators)?);
        }
        code.function(&function);
        Ok(())
    }

    fn instruction<'a>(&mut self, operator: Operator<'a>) -> Result<Instruction<'a>, reencode::Error<&'static str>> {
        let unneeded = match operator {
            Operator::MemoryFill { .. } => return Ok(Instruction::Call(self.functions)),
            Operator::MemoryCopy { .. } => return Ok(Instruction::Call(self.functions + 1)),
            Operator::MemoryInit { .. } => "memory.init",
            Operator::TableInit { .. } => "table.init",
            Operator::TableCopy { .. } => "table.copy",
            Operator::TableFill { .. } => "table.fill",
            Operator::TableGrow { .. } => "table.grow",
            operator => return reencode::utils::instruction(self, operator),
        };
        Err(reencode::Error::UserError(unneeded))
    }
}
