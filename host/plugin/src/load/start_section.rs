//! Makes a core module's start function run after its imports became usable.
//!
//! A component instantiates its core module before it connects the imports that read or write the module's memory. A start function runs during
//! that instantiation, so its calls of imports would trap. An exported `_initialize` runs once everything is connected, and still before every
//! other call. The start function therefore becomes `_initialize`. If the module has an `_initialize` already, a new function calls both.

use std::borrow::Cow;
use std::ops::Range;

use wasmparser::{BinaryReaderError, ExportSectionReader, ExternalKind, Parser, Payload, TypeRef};

const INITIALIZE: &str = "_initialize";
/// The name of `_initialize` in the standard naming of core modules.
const STANDARD_INITIALIZE: &str = "cm32p2_initialize";

const START_SECTION: u8 = 8;

/// Returns the valid module with its start function as `_initialize`. Returns it unchanged if it has no start function, or if its
/// `_initialize` is no function.
pub(super) fn run_as_initialize(module: &[u8]) -> Cow<'_, [u8]> {
    let Ok(outline) = Outline::read(module) else { return Cow::Borrowed(module) };
    let Some(start) = outline.start else { return Cow::Borrowed(module) };
    let rewritten = match &outline.initialize {
        Initialize::None => outline.with_start_exported(module, start),
        Initialize::Function(initialize) => outline.with_both_called(module, start, initialize),
        Initialize::Other => None,
    };
    rewritten.map_or(Cow::Borrowed(module), Cow::Owned)
}

/// A section, with the range of its contents in the module.
struct Section {
    id: u8,
    contents: Range<usize>,
}

/// The export `_initialize` of a module.
enum Initialize {
    None,
    Function(InitializeExport),
    /// It is no function, or there are two.
    Other,
}

struct InitializeExport {
    function: u32,
    name: &'static str,
    /// The range of the item in the module.
    item: Range<usize>,
}

/// What this pass needs to know of a module.
struct Outline {
    sections: Vec<Section>,
    /// The type index of each function, imported ones first.
    functions: Vec<u32>,
    start: Option<u32>,
    initialize: Initialize,
}

impl Outline {
    fn read(module: &[u8]) -> Result<Self, BinaryReaderError> {
        let mut outline =
            Self { sections: Vec::new(), functions: Vec::new(), start: None, initialize: Initialize::None };
        for payload in Parser::new(0).parse_all(module) {
            let payload = payload?;
            if let Some((id, contents)) = payload.as_section() {
                outline.sections.push(Section { id, contents });
            }
            outline.add(payload)?;
        }
        Ok(outline)
    }

    fn add(&mut self, payload: Payload<'_>) -> Result<(), BinaryReaderError> {
        match payload {
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    if let TypeRef::Func(index) | TypeRef::FuncExact(index) = import?.ty {
                        self.functions.push(index);
                    }
                }
            }
            Payload::FunctionSection(section) => {
                for index in section {
                    self.functions.push(index?);
                }
            }
            Payload::ExportSection(section) => self.initialize = find_initialize(section)?,
            Payload::StartSection { func, .. } => self.start = Some(func),
            _ => {}
        }
        Ok(())
    }

    fn with_start_exported(&self, module: &[u8], start: u32) -> Option<Vec<u8>> {
        self.rewritten(module, |contents, section| match section {
            SectionKind::Exports => append_item(contents, &function_export(INITIALIZE, start)),
            _ => Some(contents.to_vec()),
        })
    }

    fn with_both_called(&self, module: &[u8], start: u32, initialize: &InitializeExport) -> Option<Vec<u8>> {
        // Both have the type that a start function must have.
        let type_index = *self.functions.get(usize::try_from(start).ok()?)?;
        let added = u32::try_from(self.functions.len()).ok()?;
        let body = call_both(start, initialize.function);
        let has = |kind| self.sections.iter().any(|section| SectionKind::of(section.id) == kind);
        if !has(SectionKind::Functions) || !has(SectionKind::Code) {
            return None;
        }
        let exports =
            self.sections.iter().find(|section| SectionKind::of(section.id) == SectionKind::Exports)?;
        let before = module.get(exports.contents.start..initialize.item.start)?;
        let after = module.get(initialize.item.end..exports.contents.end)?;
        let exports = [before, &function_export(initialize.name, added), after].concat();
        self.rewritten(module, |contents, section| match section {
            SectionKind::Functions => append_item(contents, &leb128(type_index)),
            SectionKind::Code => append_item(contents, &body),
            SectionKind::Exports => Some(exports.clone()),
            SectionKind::Other => Some(contents.to_vec()),
        })
    }

    /// Returns the module without its start section, and with the other sections' contents as `edit` returns them.
    fn rewritten(
        &self,
        module: &[u8],
        edit: impl Fn(&[u8], SectionKind) -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        const HEADER: usize = 8;
        let mut rewritten = module.get(..HEADER)?.to_vec();
        for Section { id, contents } in &self.sections {
            if *id == START_SECTION {
                continue;
            }
            let contents = edit(module.get(contents.clone())?, SectionKind::of(*id))?;
            rewritten.push(*id);
            rewritten.extend(leb128(u32::try_from(contents.len()).ok()?));
            rewritten.extend(contents);
        }
        Some(rewritten)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SectionKind {
    Functions,
    Exports,
    Code,
    Other,
}

impl SectionKind {
    fn of(id: u8) -> Self {
        match id {
            3 => Self::Functions,
            7 => Self::Exports,
            10 => Self::Code,
            _ => Self::Other,
        }
    }
}

fn find_initialize(exports: ExportSectionReader<'_>) -> Result<Initialize, BinaryReaderError> {
    let mut found = Initialize::None;
    let end = exports.range().end;
    let mut items = exports.into_iter_with_offsets().peekable();
    while let Some(item) = items.next() {
        let (offset, export) = item?;
        let names = [INITIALIZE, STANDARD_INITIALIZE];
        let Some(name) = names.into_iter().find(|name| *name == export.name) else { continue };
        let item_end = match items.peek() {
            Some(Ok((next, _))) => *next,
            _ => end,
        };
        found = match (found, export.kind) {
            (Initialize::None, ExternalKind::Func) => Initialize::Function(InitializeExport {
                function: export.index,
                name,
                item: offset..item_end,
            }),
            _ => Initialize::Other,
        };
    }
    Ok(found)
}

/// Returns an item of the code section: a function that calls these two, which take nothing and return nothing.
fn call_both(first: u32, second: u32) -> Vec<u8> {
    const NO_LOCALS: u8 = 0;
    const CALL: u8 = 0x10;
    const END: u8 = 0x0b;
    let code = [vec![NO_LOCALS, CALL], leb128(first), vec![CALL], leb128(second), vec![END]].concat();
    let length = u32::try_from(code.len()).expect("it has at most 14 bytes");
    [leb128(length), code].concat()
}

/// Returns an item of the export section.
fn function_export(name: &str, function: u32) -> Vec<u8> {
    const FUNCTION: u8 = 0;
    let length = u32::try_from(name.len()).expect("the names are constants");
    [leb128(length), name.as_bytes().to_vec(), vec![FUNCTION], leb128(function)].concat()
}

/// Returns the contents of a section of items, which begin with their number, with one more item at the end.
fn append_item(contents: &[u8], item: &[u8]) -> Option<Vec<u8>> {
    let length = contents.iter().position(|byte| byte & 0x80 == 0)? + 1;
    let (number, items) = contents.split_at(length);
    let number = number
        .iter()
        .rev()
        .try_fold(0_u64, |number, byte| number.checked_mul(1 << 7).map(|n| n | u64::from(byte & 0x7f)))?;
    let number = u32::try_from(number.checked_add(1)?).ok()?;
    Some([&leb128(number), items, item].concat())
}

/// Returns a number as LEB128 in its shortest form.
fn leb128(mut number: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use wasmparser::Validator;

    use super::*;

    fn assemble(wat: &str) -> Vec<u8> {
        wat::parse_str(wat).unwrap_or_else(|error| panic!("{wat}: {error}"))
    }

    fn outline(module: &[u8]) -> Outline {
        Validator::new().validate_all(module).expect("a valid module");
        Outline::read(module).expect("a readable module")
    }

    #[test]
    fn the_start_function_becomes_initialize() {
        let module =
            assemble(r#"(module (import "m" "i" (func)) (func (export "f")) (func $s call 0) (start $s))"#);
        let rewritten = outline(&run_as_initialize(&module));
        assert_eq!(rewritten.start, None);
        assert!(matches!(rewritten.initialize, Initialize::Function(InitializeExport { function: 2, .. })));
        assert_eq!(rewritten.functions.len(), 3);
    }

    #[test]
    fn an_imported_start_function_becomes_initialize() {
        let module = assemble(r#"(module (import "m" "i" (func $i)) (func (export "f")) (start $i))"#);
        let rewritten = outline(&run_as_initialize(&module));
        assert!(matches!(rewritten.initialize, Initialize::Function(InitializeExport { function: 0, .. })));
    }

    #[test]
    fn a_module_with_initialize_gets_a_function_that_calls_both() {
        for name in [INITIALIZE, STANDARD_INITIALIZE] {
            let module = assemble(&format!(
                r#"(module (func (export "a")) (func (export "{name}")) (func (export "z")) (func) (start 3))"#
            ));
            let rewritten = run_as_initialize(&module);
            let read = outline(&rewritten);
            assert_eq!((read.start, read.functions.len()), (None, 5));
            let Initialize::Function(export) = &read.initialize else { panic!("no _initialize: {name}") };
            assert_eq!((export.function, export.name), (4, name));
            assert!(rewritten.ends_with(&call_both(3, 1)), "the code section is the last one");
            let mut items = Parser::new(0).parse_all(&rewritten);
            let exports = items.find_map(|payload| match payload.expect("a payload") {
                Payload::ExportSection(section) => Some(section),
                _ => None,
            });
            let exports: Vec<_> =
                exports.expect("exports").into_iter().map(|export| export.expect("an export").name).collect();
            assert_eq!(exports, ["a", name, "z"]);
        }
    }

    #[test]
    fn the_number_of_items_may_need_another_byte() {
        let functions = "(func)".repeat(126);
        let module = assemble(&format!(r#"(module (func (export "_initialize")) {functions} (start 1))"#));
        assert_eq!(outline(&module).functions.len(), 127);
        assert_eq!(outline(&run_as_initialize(&module)).functions.len(), 128);
    }

    #[test]
    fn a_module_without_a_start_function_or_with_another_initialize_stays_as_it_is() {
        for wat in [
            r#"(module (func (export "_initialize")))"#,
            r#"(module (memory (export "_initialize") 1) (func $s) (start $s))"#,
            r#"(module (func (export "_initialize")) (func (export "cm32p2_initialize")) (func $s) (start $s))"#,
        ] {
            assert!(matches!(run_as_initialize(&assemble(wat)), Cow::Borrowed(_)), "{wat}");
        }
    }
}
