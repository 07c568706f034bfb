//! Flattening: the core parameters that stand for the parameters of a function in WIT.

use wit_parser::abi::{WasmSignature, WasmType};
use wit_parser::{Function, Resolve, Type, TypeDefKind};

use super::names::identifier;

/// One parameter of a core function.
pub(super) struct CoreParam {
    /// The path to the value, such as `key_namespace`.
    pub(super) name: String,
    pub(super) kind: ParamKind,
    pub(super) core: WasmType,
}

/// What a core parameter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParamKind {
    /// A value that has one core parameter.
    Value(Type),
    /// The address of a string.
    Characters,
    /// The address of the first item of a list.
    Items(Type),
    /// The number of a string's bytes, or of a list's items.
    Length,
    /// Whether an option has a value, or a result is an error.
    Flag,
    /// The number of a variant's case.
    Tag,
    /// A part of a payload that differs between the cases of a variant.
    Payload,
    /// The address of all parameters, for functions with more than 16 core parameters.
    Indirect,
    /// Where an import writes its result.
    ReturnArea(Type),
}

type Params = Vec<(String, ParamKind)>;

/// Returns the core parameters for the parameters in WIT. The address of the result is not among them.
pub(super) fn params(resolve: &Resolve, function: &Function, signature: &WasmSignature) -> Vec<CoreParam> {
    let mut params = Params::new();
    if signature.indirect_params {
        params.push(("params".to_owned(), ParamKind::Indirect));
    } else {
        for param in &function.params {
            flatten(resolve, &identifier(&param.name), &param.ty, &mut params);
        }
    }
    let with_core = params.into_iter().zip(&signature.params);
    with_core.map(|((name, kind), core)| CoreParam { name, kind, core: *core }).collect()
}

fn flatten(resolve: &Resolve, name: &str, ty: &Type, params: &mut Params) {
    let Type::Id(id) = ty else {
        if matches!(ty, Type::String) {
            push_pointer(name, ParamKind::Characters, params);
        } else {
            params.push((name.to_owned(), ParamKind::Value(*ty)));
        }
        return;
    };
    match &resolve.types[*id].kind {
        TypeDefKind::Type(aliased) => flatten(resolve, name, aliased, params),
        TypeDefKind::List(item) => push_pointer(name, ParamKind::Items(*item), params),
        TypeDefKind::Record(record) => {
            for field in &record.fields {
                flatten(resolve, &format!("{name}_{}", identifier(&field.name)), &field.ty, params);
            }
        }
        TypeDefKind::Tuple(tuple) => {
            for (index, ty) in tuple.types.iter().enumerate() {
                flatten(resolve, &format!("{name}_{index}"), ty, params);
            }
        }
        TypeDefKind::Variant(variant) => {
            params.push((name.to_owned(), ParamKind::Tag));
            let payloads = variant.cases.iter().filter_map(|case| Some((case.name.as_str(), case.ty?)));
            flatten_payloads(resolve, name, &payloads.collect::<Vec<_>>(), params);
        }
        TypeDefKind::Option(value) => {
            params.push((name.to_owned(), ParamKind::Flag));
            flatten_payloads(resolve, name, &[("value", *value)], params);
        }
        TypeDefKind::Result(result) => {
            params.push((name.to_owned(), ParamKind::Flag));
            let payloads = [("ok", result.ok), ("err", result.err)];
            let payloads = payloads.into_iter().filter_map(|(case, ty)| Some((case, ty?)));
            flatten_payloads(resolve, name, &payloads.collect::<Vec<_>>(), params);
        }
        TypeDefKind::Flags(flags) if flags.repr().count() != 1 => {
            for index in 0..flags.repr().count() {
                params.push((format!("{name}_{index}"), ParamKind::Value(Type::U32)));
            }
        }
        // Enumerations, flags and handles. The contract has no other types; a test compares the number of parameters with wit-parser's.
        _ => params.push((name.to_owned(), ParamKind::Value(*ty))),
    }
}

fn push_pointer(name: &str, kind: ParamKind, params: &mut Params) {
    params.push((name.to_owned(), kind));
    params.push((format!("{name}_len"), ParamKind::Length));
}

/// Adds the parameters for the payload of a variant's cases, which share them.
fn flatten_payloads(resolve: &Resolve, name: &str, cases: &[(&str, Type)], params: &mut Params) {
    if let [(case, ty)] = cases {
        flatten(resolve, &format!("{name}_{}", identifier(case)), ty, params);
        return;
    }
    let length = |ty: &Type| {
        let mut params = Params::new();
        flatten(resolve, name, ty, &mut params);
        params.len()
    };
    let longest = cases.iter().map(|(_, ty)| length(ty)).max().unwrap_or_default();
    params.extend((0..longest).map(|index| (format!("{name}_payload_{index}"), ParamKind::Payload)));
}
