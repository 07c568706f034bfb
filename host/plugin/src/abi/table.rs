//! Renders the contract as a table for people.

use wit_parser::abi::WasmType;
use wit_parser::{LiftLowerAbi, ManglingAndAbi, Type, TypeDefKind, TypeId, WasmExport};

use super::functions::{CoreFunction, Returned};
use super::{CoreContract, POST_RETURN_PREFIX, types};

impl CoreContract {
    /// Returns a table with a row for each import and export, and for each type its layout in memory.
    pub(super) fn table(&self) -> String {
        let (imports, exports): (Vec<_>, Vec<_>) =
            self.functions().iter().partition(|function| function.module.is_some());
        let mut rows = vec![row(["MODULE", "NAME", "ALIAS", "RESULT", "CORE SIGNATURE"])];
        rows.extend(imports.into_iter().map(|function| self.import_row(function)));
        let mut text = format!(
            "{}, as core modules see it. docs/abi.md explains this table.\n\nImports. Instead of NAME from MODULE, a module can import \
             ALIAS from \"pilothouse\", or ph_ALIAS from \"env\".\n\n",
            self.package
        );
        text += &align(&rows);

        let mut rows = vec![row(["NAME", "ALIAS", "RESULT", "CORE SIGNATURE"])];
        rows.extend(exports.into_iter().flat_map(|function| self.export_rows(function)));
        rows.extend(support_rows());
        text += "\nExports. Instead of NAME, a module can export ALIAS.\n\n";
        text += &align(&rows);

        text += "\nTypes. Numbers are little-endian.\n\n";
        text += &self.common_layouts();
        for id in &self.types {
            text += &self.layout(*id);
        }
        text
    }

    fn import_row(&self, function: &CoreFunction) -> Vec<String> {
        let result = match &function.returned {
            Returned::Nothing => "-".to_owned(),
            Returned::Directly(ty) => self.text(ty),
            Returned::InMemory(ty) => format!("{} at ret, {}", self.text(ty), self.size(ty)),
        };
        let module = function.module.clone().unwrap_or_default();
        vec![module, function.name.clone(), function.alias.clone(), result, signature(function)]
    }

    /// Returns the row of an export, and that of its post-return function.
    fn export_rows(&self, function: &CoreFunction) -> Vec<Vec<String>> {
        let result = match &function.returned {
            Returned::Nothing => "-".to_owned(),
            Returned::Directly(ty) => self.text(ty),
            Returned::InMemory(ty) => format!("address of {}, {}", self.text(ty), self.size(ty)),
        };
        let mut rows = vec![vec![function.name.clone(), function.alias.clone(), result, signature(function)]];
        if let Some(name) = &function.post_return {
            let results: Vec<_> =
                function.results.iter().map(|ty| format!("result {}", core_text(*ty))).collect();
            rows.push(vec![
                name.clone(),
                format!("{POST_RETURN_PREFIX}{}", function.alias),
                "-".to_owned(),
                format!("({})", results.join(", ")),
            ]);
        }
        rows
    }

    fn text(&self, ty: &Type) -> String {
        types::type_text(&self.resolve, ty)
    }

    fn size(&self, ty: &Type) -> String {
        let size = self.sizes.size(ty).size_wasm32();
        let bytes = if size == 1 { "byte" } else { "bytes" };
        format!("{size} {bytes}, align {}", self.sizes.align(ty).align_wasm32())
    }

    /// Returns the layout of the types that have no definition of their own.
    fn common_layouts(&self) -> String {
        let pair = self.sizes.size(&Type::String).size_wasm32();
        format!(
            "string, list<T>: {}\n  at 0   address\n  at {}   length: bytes of a string, items of a list\n\
             own<T>, borrow<T>: {}: a handle\n",
            self.size(&Type::String),
            pair / 2,
            self.size(&Type::U32)
        )
    }

    /// Returns the lines about one type; none for lists and handles, whose layout is always the same.
    fn layout(&self, id: TypeId) -> String {
        let ty = Type::Id(id);
        let (kind, rows) = match &self.resolve.types[id].kind {
            TypeDefKind::Record(record) => {
                let fields: Vec<_> =
                    record.fields.iter().map(|field| (field.name.clone(), field.ty)).collect();
                ("record ", self.fields(&fields))
            }
            TypeDefKind::Tuple(tuple) => {
                let fields = tuple.types.iter().enumerate();
                let fields: Vec<_> = fields.map(|(index, ty)| (index.to_string(), *ty)).collect();
                ("", self.fields(&fields))
            }
            TypeDefKind::Variant(variant) => {
                let cases: Vec<_> = variant.cases.iter().map(|case| (case.name.as_str(), case.ty)).collect();
                ("variant ", self.cases(variant.tag(), &cases))
            }
            TypeDefKind::Option(value) => {
                ("", self.cases(wit_parser::Int::U8, &[("none", None), ("some", Some(*value))]))
            }
            TypeDefKind::Result(result) => {
                ("", self.cases(wit_parser::Int::U8, &[("ok", result.ok), ("err", result.err)]))
            }
            TypeDefKind::Enum(definition) => {
                let cases = definition.cases.iter().enumerate();
                ("enum ", cases.map(|(number, case)| row([&number.to_string(), &case.name])).collect())
            }
            TypeDefKind::Flags(flags) => {
                let flags = flags.flags.iter().enumerate();
                ("flags ", flags.map(|(bit, flag)| row([&format!("bit {bit}"), &flag.name])).collect())
            }
            _ => return String::new(),
        };
        let lines: String = align(&rows).lines().map(|line| format!("  {line}\n")).collect();
        format!("{kind}{}: {}\n{lines}", self.text(&ty), self.size(&ty))
    }

    fn fields(&self, fields: &[(String, Type)]) -> Vec<Vec<String>> {
        let offsets = self.sizes.field_offsets(fields.iter().map(|(_, ty)| ty));
        let rows = fields.iter().zip(offsets);
        rows.map(|((name, ty), (offset, _))| {
            row([&format!("at {}", offset.size_wasm32()), name, &self.text(ty)])
        })
        .collect()
    }

    fn cases(&self, tag: wit_parser::Int, cases: &[(&str, Option<Type>)]) -> Vec<Vec<String>> {
        let payload = self.sizes.payload_offset(tag, cases.iter().map(|(_, ty)| ty.as_ref())).size_wasm32();
        let mut rows = vec![row(["at 0", "case", &format!("u{}", types::bits(tag))])];
        for (number, (name, ty)) in cases.iter().enumerate() {
            let text = ty.as_ref().map_or_else(String::new, |ty| format!("{} at {payload}", self.text(ty)));
            rows.push(row([&format!("case {number}"), name, &text]));
        }
        rows
    }
}

/// Returns the rows of the exports that every module needs or may have, whatever the contract.
fn support_rows() -> Vec<Vec<String>> {
    let name = |export: WasmExport<'_>| {
        // These names do not depend on a world.
        wit_parser::Resolve::default().wasm_export_name(ManglingAndAbi::Legacy(LiftLowerAbi::Sync), export)
    };
    vec![
        row([&name(WasmExport::Memory), "-", "-", "a memory"]),
        row([
            &name(WasmExport::Realloc),
            "-",
            "address",
            "(old i32, old_size i32, align i32, new_size i32) -> i32",
        ]),
        row([&name(WasmExport::Initialize), "-", "-", "() (optional)"]),
    ]
}

fn signature(function: &CoreFunction) -> String {
    let params = function.params.iter().map(|param| format!("{} {}", param.name, core_text(param.core)));
    let params = params.collect::<Vec<_>>().join(", ");
    let results: Vec<_> = function.results.iter().map(|ty| core_text(*ty)).collect();
    let arrow = if results.is_empty() { "" } else { " -> " };
    format!("({params}){arrow}{}", results.join(", "))
}

/// Returns the type in WebAssembly. All memories have 32-bit addresses.
fn core_text(ty: WasmType) -> &'static str {
    match ty {
        WasmType::I32 | WasmType::Pointer | WasmType::Length => "i32",
        WasmType::I64 | WasmType::PointerOrI64 => "i64",
        WasmType::F32 => "f32",
        WasmType::F64 => "f64",
    }
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// Returns a line for each row, with the cells of each column below each other.
fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", cells.join("   ").trim_end())
    };
    rows.iter().map(line).collect()
}
