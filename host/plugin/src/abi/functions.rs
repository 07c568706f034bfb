//! The functions of a world as core functions: their names, aliases and signatures.

use wit_parser::abi::{AbiVariant, WasmSignature, WasmType};
use wit_parser::{
    Function, InterfaceId, LiftLowerAbi, ManglingAndAbi, Resolve, Type, TypeDefKind, TypeId, WasmExport,
    WasmExportKind, WasmImport, WorldId, WorldItem, WorldKey,
};

use super::flatten::{self, CoreParam, ParamKind};
use super::{names, types};

/// The spelling of names that compilers of all languages use.
const NAMES: ManglingAndAbi = ManglingAndAbi::Legacy(LiftLowerAbi::Sync);

/// A function that a core module imports or exports.
pub(crate) struct CoreFunction {
    /// The module to import from; `None` for an export.
    pub(crate) module: Option<String>,
    pub(crate) name: String,
    /// A name that is an identifier: of an import, in the module [`names::ALIAS_MODULE`].
    pub(crate) alias: String,
    /// The name in C. For an export, it is the alias.
    pub(crate) identifier: String,
    /// The name of the function that the host calls once it has read the result of an export in memory.
    pub(crate) post_return: Option<String>,
    /// The function in WIT.
    pub(super) wit: String,
    pub(super) params: Vec<CoreParam>,
    pub(super) results: Vec<WasmType>,
    pub(super) returned: Returned,
}

/// Where a function leaves its result.
pub(super) enum Returned {
    Nothing,
    /// The core result is the value.
    Directly(Type),
    /// The value is in memory: where the last parameter of an import points to, or the core result of an export.
    InMemory(Type),
}

/// Returns the imports of a world, then its exports.
pub(super) fn of_world(resolve: &Resolve, world: WorldId) -> Vec<CoreFunction> {
    let world = &resolve.worlds[world];
    let mut functions = Vec::new();
    for (key, id) in interfaces(world.imports.iter()) {
        let interface = &resolve.interfaces[id];
        functions.extend(interface.functions.values().map(|function| import(resolve, key, id, function)));
        let is_resource = |id: TypeId| matches!(resolve.types[id].kind, TypeDefKind::Resource);
        let resources = interface.types.values().copied().filter(|ty| is_resource(*ty));
        functions.extend(resources.map(|resource| resource_drop(resolve, key, id, resource)));
    }
    for (key, id) in interfaces(world.exports.iter()) {
        let exported = resolve.interfaces[id].functions.values();
        functions.extend(exported.map(|function| export(resolve, key, function)));
    }
    functions
}

/// Returns the interfaces among the imports or exports of a world.
pub(super) fn interfaces<'a>(
    items: impl Iterator<Item = (&'a WorldKey, &'a WorldItem)>,
) -> impl Iterator<Item = (&'a WorldKey, InterfaceId)> {
    items.filter_map(|(key, item)| match item {
        WorldItem::Interface { id, .. } => Some((key, *id)),
        _ => None,
    })
}

fn import(resolve: &Resolve, key: &WorldKey, id: InterfaceId, function: &Function) -> CoreFunction {
    let import = WasmImport::Func { interface: Some(key), func: function };
    let (module, name) = resolve.wasm_import_name(NAMES, import);
    let signature = resolve.wasm_signature(AbiVariant::GuestImport, function);
    let returned = returned(function, &signature);
    let mut params = flatten::params(resolve, function, &signature);
    if let (Returned::InMemory(ty), Some(core)) = (&returned, signature.params.last()) {
        params.push(CoreParam { name: "ret".to_owned(), kind: ParamKind::ReturnArea(*ty), core: *core });
    }
    let alias = names::import_alias(types::interface_name(resolve, id), &name);
    CoreFunction {
        module: Some(module),
        name,
        identifier: format!("{}{alias}", names::IDENTIFIER_PREFIX),
        alias,
        post_return: None,
        wit: types::function_text(resolve, function),
        params,
        results: signature.results,
        returned,
    }
}

/// Returns the import that closes a handle.
fn resource_drop(resolve: &Resolve, key: &WorldKey, id: InterfaceId, resource: TypeId) -> CoreFunction {
    let intrinsic = wit_parser::ResourceIntrinsic::ImportedDrop;
    let import = WasmImport::ResourceIntrinsic { interface: Some(key), resource, intrinsic };
    let (module, name) = resolve.wasm_import_name(NAMES, import);
    let alias = names::import_alias(types::interface_name(resolve, id), &name);
    let handle = Type::Id(resource);
    CoreFunction {
        module: Some(module),
        name,
        identifier: format!("{}{alias}", names::IDENTIFIER_PREFIX),
        alias,
        post_return: None,
        wit: format!("closes a handle of {}", types::type_text(resolve, &handle)),
        params: vec![CoreParam {
            name: "handle".to_owned(),
            kind: ParamKind::Value(handle),
            core: WasmType::I32,
        }],
        results: Vec::new(),
        returned: Returned::Nothing,
    }
}

fn export(resolve: &Resolve, key: &WorldKey, function: &Function) -> CoreFunction {
    let name_of = |kind| {
        let export = WasmExport::Func { interface: Some(key), func: function, kind };
        resolve.wasm_export_name(NAMES, export)
    };
    let signature = resolve.wasm_signature(AbiVariant::GuestExport, function);
    let alias = names::export_alias(&function.name);
    CoreFunction {
        module: None,
        name: name_of(WasmExportKind::Normal),
        identifier: alias.clone(),
        alias,
        post_return: signature.retptr.then(|| name_of(WasmExportKind::PostReturn)),
        wit: types::function_text(resolve, function),
        params: flatten::params(resolve, function, &signature),
        returned: returned(function, &signature),
        results: signature.results,
    }
}

fn returned(function: &Function, signature: &WasmSignature) -> Returned {
    match function.result {
        None => Returned::Nothing,
        Some(ty) if signature.retptr => Returned::InMemory(ty),
        Some(ty) => Returned::Directly(ty),
    }
}
