// A transform for the compiler: gives exports the names of the contract. A name in AssemblyScript is an identifier, and can have no colon.

const VERSION = "0.1.1";

/** The functions of the contract, by the names that a plugin gives them. `endCall` runs after each of them. */
const NAMES = {
  describe: `pilothouse:controller/plugin@${VERSION}#describe`,
  reconcile: `pilothouse:controller/reconcile@${VERSION}#reconcile`,
  observe: `pilothouse:controller/observe@${VERSION}#observe`,
  indexValues: `pilothouse:controller/index@${VERSION}#values`,
};

export default class ExportNames {
  afterCompile(module) {
    for (const file of this.program.filesByName.values()) {
      if (file.source.sourceKind !== 1 || !file.exports) continue; // Only the entry file's exports are exports of the module.
      const internalName = (name) => file.exports.get(name)?.internalName;
      for (const [name, exportName] of Object.entries(NAMES)) {
        if (!internalName(name)) continue;
        module.removeExport(name);
        module.addFunctionExport(internalName(name), exportName);
        module.addFunctionExport(internalName("endCall"), `cabi_post_${exportName}`);
      }
      module.removeExport("endCall");
    }
  }
}
