//! The types of a world: their order, their names, and their layout.

use std::collections::BTreeSet;

use wit_parser::{
    Function, Handle, Int, InterfaceId, Resolve, Type, TypeDefKind, TypeId, TypeOwner, WorldId,
};

use super::functions::interfaces;
use super::names::identifier;

/// Returns the types that the functions of a world use or that its interfaces define, each once, after the types that it contains.
pub(super) fn of_world(resolve: &Resolve, world: WorldId) -> Vec<TypeId> {
    let world = &resolve.worlds[world];
    let mut collector = Collector { resolve, names: BTreeSet::new(), types: Vec::new() };
    for (_, id) in interfaces(world.imports.iter()).chain(interfaces(world.exports.iter())) {
        let interface = &resolve.interfaces[id];
        for id in interface.types.values() {
            collector.add(Type::Id(*id));
        }
        for function in interface.functions.values() {
            for ty in function.parameter_and_result_types() {
                collector.add(ty);
            }
        }
    }
    collector.types
}

struct Collector<'a> {
    resolve: &'a Resolve,
    names: BTreeSet<String>,
    types: Vec<TypeId>,
}

impl Collector<'_> {
    fn add(&mut self, ty: Type) {
        // WIT has no recursive types, so this ends.
        let Type::Id(id) = resolved(self.resolve, ty) else { return };
        for part in parts(self.resolve, id) {
            self.add(part);
        }
        if self.names.insert(type_name(self.resolve, &ty)) {
            self.types.push(id);
        }
    }
}

/// Returns the types that a type contains directly.
fn parts(resolve: &Resolve, id: TypeId) -> Vec<Type> {
    match &resolve.types[id].kind {
        TypeDefKind::Record(record) => record.fields.iter().map(|field| field.ty).collect(),
        TypeDefKind::Tuple(tuple) => tuple.types.clone(),
        TypeDefKind::Variant(variant) => variant.cases.iter().filter_map(|case| case.ty).collect(),
        TypeDefKind::Result(result) => result.ok.into_iter().chain(result.err).collect(),
        TypeDefKind::Option(ty) | TypeDefKind::List(ty) => vec![*ty],
        TypeDefKind::Handle(handle) => vec![Type::Id(resource_of(*handle))],
        _ => Vec::new(),
    }
}

fn resource_of(handle: Handle) -> TypeId {
    match handle {
        Handle::Own(id) | Handle::Borrow(id) => id,
    }
}

/// Returns the type that a name of another interface, or an alias, stands for.
pub(super) fn resolved(resolve: &Resolve, ty: Type) -> Type {
    let mut ty = ty;
    while let Type::Id(id) = ty
        && let TypeDefKind::Type(aliased) = &resolve.types[id].kind
    {
        ty = *aliased;
    }
    ty
}

/// Returns the name of an interface without its package.
pub(super) fn interface_name(resolve: &Resolve, id: InterfaceId) -> &str {
    resolve.interfaces[id].name.as_deref().unwrap_or_default()
}

/// Returns the interface and the name of a type that WIT names.
fn path(resolve: &Resolve, id: TypeId) -> (&str, &str) {
    let definition = &resolve.types[id];
    let interface = match definition.owner {
        TypeOwner::Interface(interface) => interface_name(resolve, interface),
        _ => "",
    };
    (interface, definition.name.as_deref().unwrap_or_default())
}

/// Returns a type in WIT's notation, with the interface before each name: `option<types.object-key>`.
pub(super) fn type_text(resolve: &Resolve, ty: &Type) -> String {
    let text = |ty: &Type| type_text(resolve, ty);
    let optional = |ty: &Option<Type>| ty.as_ref().map_or_else(|| "_".to_owned(), text);
    let id = match resolved(resolve, *ty) {
        Type::Id(id) => id,
        primitive => return primitive_text(primitive).to_owned(),
    };
    match &resolve.types[id].kind {
        TypeDefKind::List(item) => format!("list<{}>", text(item)),
        TypeDefKind::Option(value) => format!("option<{}>", text(value)),
        TypeDefKind::Result(result) => match (&result.ok, &result.err) {
            (None, None) => "result".to_owned(),
            (Some(ok), None) => format!("result<{}>", text(ok)),
            (ok, err) => format!("result<{}, {}>", optional(ok), optional(err)),
        },
        TypeDefKind::Tuple(tuple) => {
            format!("tuple<{}>", tuple.types.iter().map(text).collect::<Vec<_>>().join(", "))
        }
        TypeDefKind::Handle(Handle::Own(resource)) => format!("own<{}>", text(&Type::Id(*resource))),
        TypeDefKind::Handle(Handle::Borrow(resource)) => format!("borrow<{}>", text(&Type::Id(*resource))),
        _ => {
            let (interface, name) = path(resolve, id);
            format!("{interface}.{name}")
        }
    }
}

/// Returns the name of a type as an identifier without a prefix: `option_types_object_key`. A handle has the name of its resource.
pub(super) fn type_name(resolve: &Resolve, ty: &Type) -> String {
    let name = |ty: &Type| type_name(resolve, ty);
    let optional = |ty: &Option<Type>| ty.as_ref().map_or_else(|| "void".to_owned(), name);
    let id = match resolved(resolve, *ty) {
        Type::Id(id) => id,
        primitive => return identifier(primitive_text(primitive)),
    };
    match &resolve.types[id].kind {
        TypeDefKind::List(item) => format!("list_{}", name(item)),
        TypeDefKind::Option(value) => format!("option_{}", name(value)),
        TypeDefKind::Result(result) => {
            format!("result_{}_{}", optional(&result.ok), optional(&result.err))
        }
        TypeDefKind::Tuple(tuple) => {
            format!("tuple_{}", tuple.types.iter().map(name).collect::<Vec<_>>().join("_"))
        }
        TypeDefKind::Handle(handle) => name(&Type::Id(resource_of(*handle))),
        _ => {
            let (interface, name) = path(resolve, id);
            identifier(&format!("{interface}_{name}"))
        }
    }
}

fn primitive_text(ty: Type) -> &'static str {
    match ty {
        Type::Bool => "bool",
        Type::U8 => "u8",
        Type::U16 => "u16",
        Type::U32 => "u32",
        Type::U64 => "u64",
        Type::S8 => "s8",
        Type::S16 => "s16",
        Type::S32 => "s32",
        Type::S64 => "s64",
        Type::F32 => "f32",
        Type::F64 => "f64",
        Type::Char => "char",
        Type::String => "string",
        Type::ErrorContext => "error-context",
        Type::Id(_) => "a defined type",
    }
}

/// Returns the number of bits of an unsigned integer.
pub(super) fn bits(int: Int) -> u32 {
    match int {
        Int::U8 => 8,
        Int::U16 => 16,
        Int::U32 => 32,
        Int::U64 => 64,
    }
}

/// Returns a function in WIT's notation: `func(watch: string, key: types.object-key) -> bool`.
pub(super) fn function_text(resolve: &Resolve, function: &Function) -> String {
    let params = function.params.iter();
    let params: Vec<_> =
        params.map(|param| format!("{}: {}", param.name, type_text(resolve, &param.ty))).collect();
    let result = function.result.as_ref();
    let result = result.map_or_else(String::new, |ty| format!(" -> {}", type_text(resolve, ty)));
    format!("func({}){result}", params.join(", "))
}
