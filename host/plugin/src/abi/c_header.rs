//! Renders the contract as a header for C99 and C++, without a C library.

use std::fmt::Write as _;

use wit_parser::abi::WasmType;
use wit_parser::{Flags, Int, Type, TypeDefKind, TypeId};

use super::flatten::{CoreParam, ParamKind};
use super::functions::{CoreFunction, Returned};
use super::names::identifier;
use super::{CoreContract, IDENTIFIER_PREFIX, POST_RETURN_PREFIX, types};

/// Beginning of the header. The layout of a structure is only that of the contract where addresses have 32 bits.
const BEGIN: &str = r#"
   Memory: what an export receives and what an import returns was allocated by cabi_realloc; the module frees it. An export returns the
   address of its result, and cabi_post_ph_... is called with that address once the host has read it. docs/abi.md has all rules. */
#ifndef PILOTHOUSE_ABI_H
#define PILOTHOUSE_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__wasm__)
#define PH_IMPORT(module, name) __attribute__((import_module(module), import_name(name)))
#define PH_EXPORT(name) __attribute__((export_name(name)))
#else
#define PH_IMPORT(module, name)
#define PH_EXPORT(name)
#endif

/* Fails to compile if the compiler lays a type out differently. */
#if defined(__wasm32__)
#define PH_LAYOUT(type, holds) typedef char type##_layout[(holds) ? 1 : -1];
#else
#define PH_LAYOUT(type, holds)
#endif
"#;

const END: &str = "
#ifdef __cplusplus
}
#endif

#endif
";

/// What every module exports, whatever the contract.
const SUPPORT: &str = r#"
/* Allocates, if old is NULL, or grows. Called by the host before an export, and during an import that returns strings or lists. */
PH_EXPORT("cabi_realloc")
void *cabi_realloc(void *old, size_t old_size, size_t align, size_t new_size);
"#;

/// A member of a structure: its type in C, its name, and its offset in bytes.
struct Member {
    ty: String,
    name: String,
    offset: usize,
}

impl CoreContract {
    /// Returns the header.
    pub(super) fn c_header(&self) -> String {
        let mut text = format!(
            "/* {}, for core modules without an SDK. Printed by `pilothouse abi --format c`.{BEGIN}",
            self.package
        );
        text += "\n/* Text in UTF-8, without a zero at its end. */\n";
        text += &self.pointer_and_length("ph_string", "char", &Type::String);
        for id in &self.types {
            text += &self.definition(*id);
        }
        let (imports, exports): (Vec<_>, Vec<_>) =
            self.functions().iter().partition(|function| function.module.is_some());
        text += "\n/* Imports. Close every handle that you receive with the function ..._drop. */\n";
        for function in imports {
            text += &self.import(function);
        }
        text += "\n/* Exports: define ph_describe, cabi_realloc, and one or more of the others. */\n";
        text += SUPPORT;
        for function in exports {
            text += &self.export(function);
        }
        text + END
    }

    fn import(&self, function: &CoreFunction) -> String {
        let module = function.module.as_deref().unwrap_or_default();
        format!(
            "\n/* {} */\nPH_IMPORT(\"{module}\", \"{}\")\n{}\n",
            function.wit,
            function.name,
            self.prototype(function)
        )
    }

    fn export(&self, function: &CoreFunction) -> String {
        let (wit, name) = (&function.wit, &function.name);
        let mut text = format!("\n/* {wit} */\nPH_EXPORT(\"{name}\")\n{}\n", self.prototype(function));
        if let (Some(post_return), Returned::InMemory(ty)) = (&function.post_return, &function.returned) {
            let argument = declare(&format!("{} *", self.c_type(ty)), "result");
            let identifier = &function.identifier;
            text += &format!(
                "PH_EXPORT(\"{post_return}\")\nvoid {POST_RETURN_PREFIX}{identifier}({argument});\n"
            );
        }
        text
    }

    fn prototype(&self, function: &CoreFunction) -> String {
        let params: Vec<_> = function.params.iter().map(|param| self.param(param)).collect();
        let params = if params.is_empty() { "void".to_owned() } else { params.join(", ") };
        let result = match &function.returned {
            Returned::Directly(ty) => self.c_type(ty),
            Returned::InMemory(ty) if function.module.is_none() => format!("{} *", self.c_type(ty)),
            Returned::InMemory(_) | Returned::Nothing => "void".to_owned(),
        };
        format!("{};", declare(&result, &format!("{}({params})", function.identifier)))
    }

    fn param(&self, param: &CoreParam) -> String {
        let ty = match &param.kind {
            ParamKind::Value(ty) => self.c_type(ty),
            ParamKind::Characters => "const char *".to_owned(),
            ParamKind::Items(ty) => format!("const {} *", self.c_type(ty)),
            ParamKind::Length => "size_t".to_owned(),
            ParamKind::Flag => "bool".to_owned(),
            ParamKind::Tag => "uint32_t".to_owned(),
            ParamKind::Payload => payload_type(param.core).to_owned(),
            ParamKind::Indirect => "const void *".to_owned(),
            ParamKind::ReturnArea(ty) => format!("{} *", self.c_type(ty)),
        };
        declare(&ty, &escaped(&param.name))
    }

    fn c_type(&self, ty: &Type) -> String {
        let ty = types::resolved(&self.resolve, *ty);
        let primitive = match ty {
            Type::Bool => "bool",
            Type::U8 => "uint8_t",
            Type::U16 => "uint16_t",
            Type::U32 | Type::Char | Type::ErrorContext => "uint32_t",
            Type::U64 => "uint64_t",
            Type::S8 => "int8_t",
            Type::S16 => "int16_t",
            Type::S32 => "int32_t",
            Type::S64 => "int64_t",
            Type::F32 => "float",
            Type::F64 => "double",
            Type::String | Type::Id(_) => return self.type_identifier(&ty),
        };
        primitive.to_owned()
    }

    fn type_identifier(&self, ty: &Type) -> String {
        format!("{IDENTIFIER_PREFIX}{}", types::type_name(&self.resolve, ty))
    }

    /// Returns the definition of a type; "" for handles, which are defined with their resource.
    fn definition(&self, id: TypeId) -> String {
        let ty = Type::Id(id);
        let name = self.type_identifier(&ty);
        let definition = match &self.resolve.types[id].kind {
            TypeDefKind::Record(record) => {
                let fields = record.fields.iter();
                let fields: Vec<_> =
                    fields.map(|field| (escaped(&identifier(&field.name)), field.ty)).collect();
                self.record(&ty, &fields)
            }
            TypeDefKind::Tuple(tuple) => {
                let fields = tuple.types.iter().enumerate();
                let fields: Vec<_> = fields.map(|(index, ty)| (format!("f{index}"), *ty)).collect();
                self.record(&ty, &fields)
            }
            TypeDefKind::List(item) => self.pointer_and_length(&name, &self.c_type(item), &ty),
            TypeDefKind::Option(value) => {
                self.variant(&ty, ("bool", "is_some"), Int::U8, &[("none", None), ("value", Some(*value))])
            }
            TypeDefKind::Result(result) => {
                self.variant(&ty, ("bool", "is_err"), Int::U8, &[("ok", result.ok), ("err", result.err)])
            }
            TypeDefKind::Variant(variant) => {
                let cases: Vec<_> = variant.cases.iter().map(|case| (case.name.as_str(), case.ty)).collect();
                let tag = variant.tag();
                let names = cases.iter().map(|(name, _)| *name);
                constants(&name, names) + &self.variant(&ty, (unsigned(tag), "tag"), tag, &cases)
            }
            TypeDefKind::Enum(definition) => {
                let names = definition.cases.iter().map(|case| case.name.as_str());
                format!("typedef {} {name};\n{}", unsigned(definition.tag()), constants(&name, names))
            }
            TypeDefKind::Flags(flags) => bit_constants(&name, flags),
            TypeDefKind::Resource => format!("typedef uint32_t {name};\n"),
            _ => return String::new(),
        };
        let resource = matches!(self.resolve.types[id].kind, TypeDefKind::Resource);
        let kind = if resource { "A handle of " } else { "" };
        format!("\n/* {kind}{} */\n{definition}", types::type_text(&self.resolve, &ty))
    }

    fn record(&self, ty: &Type, fields: &[(String, Type)]) -> String {
        let offsets = self.sizes.field_offsets(fields.iter().map(|(_, ty)| ty));
        let members = fields.iter().zip(offsets).map(|((name, ty), (offset, _))| Member {
            ty: self.c_type(ty),
            name: name.clone(),
            offset: offset.size_wasm32(),
        });
        self.structure(&self.type_identifier(ty), ty, &members.collect::<Vec<_>>())
    }

    fn pointer_and_length(&self, name: &str, item: &str, ty: &Type) -> String {
        let half = self.sizes.size(ty).size_wasm32() / 2;
        let member = |ty: String, name: &str, offset| Member { ty, name: name.to_owned(), offset };
        let members = [member(format!("const {item} *"), "ptr", 0), member("size_t".to_owned(), "len", half)];
        self.structure(name, ty, &members)
    }

    /// Returns a structure with a tag, given as type and name, and a union of the payloads. If only one case has a payload, the structure has
    /// a member of its type instead of the union.
    fn variant(&self, ty: &Type, tag: (&str, &str), int: Int, cases: &[(&str, Option<Type>)]) -> String {
        let offset = self.sizes.payload_offset(int, cases.iter().map(|(_, ty)| ty.as_ref())).size_wasm32();
        let mut members = vec![Member { ty: tag.0.to_owned(), name: tag.1.to_owned(), offset: 0 }];
        let payloads: Vec<_> = cases.iter().filter_map(|(name, ty)| Some((*name, (*ty)?))).collect();
        if let [(name, ty)] = payloads.as_slice() {
            members.push(Member { ty: self.c_type(ty), name: escaped(&identifier(name)), offset });
        } else if !payloads.is_empty() {
            let cases = payloads.iter().map(|(name, ty)| {
                format!("    {};\n", declare(&self.c_type(ty), &escaped(&identifier(name))))
            });
            let payload = format!("union {{\n{}  }}", cases.collect::<String>());
            members.push(Member { ty: payload, name: "value".to_owned(), offset });
        }
        self.structure(&self.type_identifier(ty), ty, &members)
    }

    /// Returns a structure and an assertion of its layout.
    fn structure(&self, name: &str, ty: &Type, members: &[Member]) -> String {
        let fields: String =
            members.iter().map(|member| format!("  {};\n", declare(&member.ty, &member.name))).collect();
        let mut holds = format!("sizeof({name}) == {}", self.sizes.size(ty).size_wasm32());
        for member in members {
            write!(holds, " && offsetof({name}, {}) == {}", member.name, member.offset).expect("a string");
        }
        format!("typedef struct {name} {{\n{fields}}} {name};\nPH_LAYOUT({name}, {holds})\n")
    }
}

/// Returns a declaration: type and name, with a space between them unless the type ends with `*`.
fn declare(ty: &str, name: &str) -> String {
    let space = if ty.ends_with('*') { "" } else { " " };
    format!("{ty}{space}{name}")
}

/// Returns an enumeration of constants, numbered from 0.
fn constants<'a>(ty: &str, names: impl Iterator<Item = &'a str>) -> String {
    let constants = names.enumerate().map(|(number, name)| format!("  {} = {number}", constant(ty, name)));
    format!("enum {{\n{}\n}};\n", constants.collect::<Vec<_>>().join(",\n"))
}

fn constant(ty: &str, name: &str) -> String {
    format!("{ty}_{}", identifier(name)).to_ascii_uppercase()
}

/// Returns the type of flags and a macro for each. More than 32 flags have no macros.
fn bit_constants(name: &str, flags: &Flags) -> String {
    let (bits, words) = match flags.flags.len() {
        0..=8 => (8, 1),
        9..=16 => (16, 1),
        count => (32, count.div_ceil(32)),
    };
    if words > 1 {
        return format!("typedef struct {name} {{\n  uint32_t bits[{words}];\n}} {name};\n");
    }
    let mut text = format!("typedef uint{bits}_t {name};\n");
    for (bit, flag) in flags.flags.iter().enumerate() {
        text += &format!("#define {} (({name})1 << {bit})\n", constant(name, &flag.name));
    }
    text
}

fn unsigned(int: Int) -> &'static str {
    match int {
        Int::U8 => "uint8_t",
        Int::U16 => "uint16_t",
        Int::U32 => "uint32_t",
        Int::U64 => "uint64_t",
    }
}

/// Returns the type of a payload that differs between cases. The caller converts it.
fn payload_type(core: WasmType) -> &'static str {
    match core {
        WasmType::I32 => "int32_t",
        WasmType::I64 | WasmType::PointerOrI64 => "int64_t",
        WasmType::F32 => "float",
        WasmType::F64 => "double",
        WasmType::Pointer => "const void *",
        WasmType::Length => "size_t",
    }
}

/// Words that cannot be names in C or C++.
const KEYWORDS: &str = "alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const consteval \
    constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double dynamic_cast else enum explicit \
    export extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq \
    private protected public register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast \
    struct switch template this thread_local throw true try typedef typeid typename typeof union unsigned using virtual void volatile \
    wchar_t while xor xor_eq";

/// Returns a name that is no keyword: such a name gets `_` at its end.
fn escaped(name: &str) -> String {
    let is_keyword = KEYWORDS.split_whitespace().any(|keyword| keyword == name);
    if is_keyword { format!("{name}_") } else { name.to_owned() }
}
