//! Tests with a contract whose layouts were computed by hand.

use std::collections::BTreeSet;

use wit_parser::abi::AbiVariant;

use super::functions::interfaces;
use super::*;

const WIT: &str = "
package test:layouts@1.2.3;

interface shapes {
  enum colour { red, dark-green }
  flags rights { read, write, execute }
  record point { x: u8, y: u64, name: string, tint: option<colour> }
  variant shape { empty, circle(f64), named(string), both(tuple<u16, u32>) }
  resource thing {
    size-of: func() -> u32;
  }
  draw: func(shape: shape, points: list<point>, mode: rights) -> result<point, string>;
}

interface sink {
  use shapes.{point, thing};
  take: func(point: point, namespace: thing) -> result<_, string>;
}

world w {
  import shapes;
  export sink;
}
";

fn contract() -> CoreContract {
    let mut resolve = Resolve::default();
    let package = resolve.push_source("test.wit", WIT).expect("valid WIT");
    let world = resolve.select_world(&[package], Some("w")).expect("a world");
    CoreContract::of(resolve, world)
}

/// Asserts that the text has these lines, not necessarily one after the other. Runs of spaces count as one.
#[track_caller]
fn assert_lines(text: &str, expected: &[&str]) {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: BTreeSet<String> = text.lines().map(words).collect();
    for line in expected {
        assert!(lines.contains(*line), "{line}\n{text}");
    }
}

#[test]
fn the_table_has_a_row_for_each_import_with_its_core_signature() {
    assert_lines(
        &contract().table(),
        &[
            "test:layouts/shapes@1.2.3 [method]thing.size-of shapes_thing_size_of u32 (self i32) -> i32",
            "test:layouts/shapes@1.2.3 [resource-drop]thing shapes_thing_drop - (handle i32)",
            "test:layouts/shapes@1.2.3 draw shapes_draw result<shapes.point, string> at ret, 40 bytes, align 8 \
             (shape i32, shape_payload_0 i64, shape_payload_1 i32, points i32, points_len i32, mode i32, ret i32)",
        ],
    );
}

#[test]
fn the_table_has_a_row_for_each_export_and_its_post_return_function() {
    assert_lines(
        &contract().table(),
        &[
            "test:layouts/sink@1.2.3#take ph_take address of result<_, string>, 12 bytes, align 4 (point_x i32, point_y i64, \
             point_name i32, point_name_len i32, point_tint i32, point_tint_value i32, namespace i32) -> i32",
            "cabi_post_test:layouts/sink@1.2.3#take cabi_post_ph_take - (result i32)",
            "cabi_realloc - address (old i32, old_size i32, align i32, new_size i32) -> i32",
        ],
    );
}

#[test]
fn the_table_has_the_layout_of_each_type() {
    let table = contract().table();
    for layout in [
        "record shapes.point: 32 bytes, align 8\n  at 0    x      u8\n  at 8    y      u64\n  at 16   name   string\n  at 24   tint   \
         option<shapes.colour>\n",
        "variant shapes.shape: 16 bytes, align 8\n  at 0     case     u8\n  case 0   empty\n  case 1   circle   f64 at 8\n  case 2   named    \
         string at 8\n  case 3   both     tuple<u16, u32> at 8\n",
        "tuple<u16, u32>: 8 bytes, align 4\n  at 0   0   u16\n  at 4   1   u32\n",
        "option<shapes.colour>: 2 bytes, align 1\n  at 0     case   u8\n  case 0   none\n  case 1   some   shapes.colour at 1\n",
        "enum shapes.colour: 1 byte, align 1\n  0   red\n  1   dark-green\n",
        "flags shapes.rights: 1 byte, align 1\n  bit 0   read\n  bit 1   write\n  bit 2   execute\n",
        "result<shapes.point, string>: 40 bytes, align 8\n  at 0     case   u8\n  case 0   ok     shapes.point at 8\n  case 1   err    \
         string at 8\n",
        "string, list<T>: 8 bytes, align 4\n  at 0   address\n  at 4   length",
    ] {
        assert!(table.contains(layout), "{layout}\n{table}");
    }
}

#[test]
fn the_header_has_each_type_and_function() {
    let header = contract().c_header();
    assert_lines(
        &header,
        &[
            "typedef uint8_t ph_shapes_colour;",
            "PH_SHAPES_COLOUR_DARK_GREEN = 1",
            "#define PH_SHAPES_RIGHTS_EXECUTE ((ph_shapes_rights)1 << 2)",
            "ph_option_shapes_colour tint;",
            "PH_LAYOUT(ph_shapes_point, sizeof(ph_shapes_point) == 32 && offsetof(ph_shapes_point, x) == 0 && \
             offsetof(ph_shapes_point, y) == 8 && offsetof(ph_shapes_point, name) == 16 && offsetof(ph_shapes_point, tint) == 24)",
            "PH_LAYOUT(ph_result_void_string, sizeof(ph_result_void_string) == 12 && offsetof(ph_result_void_string, is_err) == 0 && \
             offsetof(ph_result_void_string, err) == 4)",
            "PH_SHAPES_SHAPE_BOTH = 3",
            "ph_tuple_u16_u32 both;",
            "typedef uint32_t ph_shapes_thing;",
            "PH_IMPORT(\"test:layouts/shapes@1.2.3\", \"[method]thing.size-of\")",
            "uint32_t ph_shapes_thing_size_of(ph_shapes_thing self);",
            "void ph_shapes_thing_drop(ph_shapes_thing handle);",
            "void ph_shapes_draw(uint32_t shape, int64_t shape_payload_0, size_t shape_payload_1, const ph_shapes_point *points, \
             size_t points_len, ph_shapes_rights mode, ph_result_shapes_point_string *ret);",
            "PH_EXPORT(\"test:layouts/sink@1.2.3#take\")",
            "ph_result_void_string *ph_take(uint8_t point_x, uint64_t point_y, const char *point_name, size_t point_name_len, \
             bool point_tint, ph_shapes_colour point_tint_value, ph_shapes_thing namespace_);",
            "PH_EXPORT(\"cabi_post_test:layouts/sink@1.2.3#take\")",
            "void cabi_post_ph_take(ph_result_void_string *result);",
        ],
    );
    // C reads a header from its beginning: a type comes after those that it contains.
    let position = |line: &str| header.find(line).unwrap_or_else(|| panic!("{line}\n{header}"));
    assert!(position("} ph_tuple_u16_u32;") < position("} ph_shapes_shape;"));
    assert!(position("} ph_option_shapes_colour;") < position("} ph_shapes_point;"));
}

#[test]
fn the_names_in_the_contract_are_unique_and_its_parameters_are_those_of_wit_parser() {
    let contract = CoreContract::read().expect("the contract");
    let mut identifiers = BTreeSet::new();
    let mut aliases = BTreeSet::new();
    for function in contract.functions() {
        assert!(identifiers.insert(&function.identifier), "{}", function.identifier);
        assert!(aliases.insert(&function.alias), "{}", function.alias);
        let names: BTreeSet<_> = function.params.iter().map(|param| &param.name).collect();
        assert_eq!(names.len(), function.params.len(), "{}", function.identifier);
    }
    let types =
        contract.types.iter().map(|id| types::type_name(&contract.resolve, &wit_parser::Type::Id(*id)));
    let types: BTreeSet<_> = types.map(|name| format!("{IDENTIFIER_PREFIX}{name}")).collect();
    assert_eq!(types.len(), contract.types.len());
    assert!(types.iter().all(|name| !identifiers.contains(name)), "{types:?}");

    let resolve = &contract.resolve;
    let world = resolve.worlds.iter().find(|(_, world)| world.name == WORLD).expect("a world").1;
    for (_, id) in interfaces(world.imports.iter()) {
        for function in resolve.interfaces[id].functions.values() {
            let signature = resolve.wasm_signature(AbiVariant::GuestImport, function);
            // Neither the table nor the header describes the memory of indirect parameters.
            assert!(!signature.indirect_params, "{}", function.name);
            let found = contract.functions().iter().find(|found| {
                found.name == function.name && found.module.as_deref() == resolve.id_of(id).as_deref()
            });
            let found = found.unwrap_or_else(|| panic!("{}", function.name));
            assert_eq!(found.params.len(), signature.params.len(), "{}", function.name);
        }
    }
}

#[test]
fn the_contract_is_printed_in_every_format() {
    let table = abi_text(AbiFormat::Table);
    assert!(table.contains("#reconcile") && table.contains("cache_get"), "{table}");
    let header = abi_text(AbiFormat::CHeader);
    assert!(header.contains("ph_cache_get(") && header.contains("*ph_reconcile("), "{header}");
}
