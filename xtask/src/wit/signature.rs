//! Formats types and functions in WIT syntax.

use wit_bindgen_core::wit_parser::{Function, FunctionKind, Handle, Resolve, Type, TypeDefKind, TypeId};

/// Formats a function, such as `get: func(watch: string, key: object-key) -> option<object>`. Omits the `self` of a method.
pub(super) fn function(resolve: &Resolve, function: &Function) -> String {
    let skipped = usize::from(matches!(function.kind, FunctionKind::Method(_)));
    let parameters: Vec<_> = function
        .params
        .iter()
        .skip(skipped)
        .map(|parameter| format!("{}: {}", parameter.name, type_name(resolve, &parameter.ty)))
        .collect();
    let result =
        function.result.as_ref().map(|ty| format!(" -> {}", type_name(resolve, ty))).unwrap_or_default();
    format!("{}: func({}){result}", function.item_name(), parameters.join(", "))
}

/// Formats a use of a type: its name if it has one, otherwise its structure.
pub(super) fn type_name(resolve: &Resolve, ty: &Type) -> String {
    match ty {
        Type::Bool => "bool".into(),
        Type::U8 => "u8".into(),
        Type::U16 => "u16".into(),
        Type::U32 => "u32".into(),
        Type::U64 => "u64".into(),
        Type::S8 => "s8".into(),
        Type::S16 => "s16".into(),
        Type::S32 => "s32".into(),
        Type::S64 => "s64".into(),
        Type::F32 => "f32".into(),
        Type::F64 => "f64".into(),
        Type::Char => "char".into(),
        Type::String => "string".into(),
        Type::ErrorContext => "error-context".into(),
        Type::Id(id) => named(resolve, *id),
    }
}

fn named(resolve: &Resolve, id: TypeId) -> String {
    let definition = &resolve.types[id];
    if let Some(name) = &definition.name {
        return name.clone();
    }
    let optional = |ty: &Option<Type>| ty.as_ref().map_or_else(|| "_".into(), |ty| type_name(resolve, ty));
    match &definition.kind {
        TypeDefKind::Option(ty) => format!("option<{}>", type_name(resolve, ty)),
        TypeDefKind::List(ty) => format!("list<{}>", type_name(resolve, ty)),
        TypeDefKind::Handle(Handle::Own(resource)) => named(resolve, *resource),
        TypeDefKind::Handle(Handle::Borrow(resource)) => format!("borrow<{}>", named(resolve, *resource)),
        TypeDefKind::Result(result) => match (&result.ok, &result.err) {
            (None, None) => "result".into(),
            (_, None) => format!("result<{}>", optional(&result.ok)),
            _ => format!("result<{}, {}>", optional(&result.ok), optional(&result.err)),
        },
        TypeDefKind::Tuple(tuple) => {
            let types: Vec<_> = tuple.types.iter().map(|ty| type_name(resolve, ty)).collect();
            format!("tuple<{}>", types.join(", "))
        }
        other => other.as_str().into(),
    }
}

/// Formats a type's complete definition, such as `record { namespace: string, name: string }`, so that definitions can be compared.
pub(super) fn definition(resolve: &Resolve, id: TypeId) -> String {
    let optional =
        |ty: &Option<Type>| ty.as_ref().map(|ty| format!("({})", type_name(resolve, ty))).unwrap_or_default();
    let listed = |word: &str, members: Vec<String>| format!("{word} {{ {} }}", members.join(", "));
    match &resolve.types[id].kind {
        TypeDefKind::Record(record) => {
            let fields = record
                .fields
                .iter()
                .map(|field| format!("{}: {}", field.name, type_name(resolve, &field.ty)));
            listed("record", fields.collect())
        }
        TypeDefKind::Variant(variant) => {
            let cases = variant.cases.iter().map(|case| format!("{}{}", case.name, optional(&case.ty)));
            listed("variant", cases.collect())
        }
        TypeDefKind::Enum(cases) => {
            listed("enum", cases.cases.iter().map(|case| case.name.clone()).collect())
        }
        TypeDefKind::Flags(flags) => {
            listed("flags", flags.flags.iter().map(|flag| flag.name.clone()).collect())
        }
        TypeDefKind::Type(ty) => format!("type {}", type_name(resolve, ty)),
        other => other.as_str().into(),
    }
}
