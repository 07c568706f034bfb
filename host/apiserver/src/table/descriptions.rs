//! The descriptions of the columns of built-in kinds.

use std::sync::OnceLock;

use pilothouse_model::hash::HashMap;

/// Descriptions by kind with group, a tab, and column.
type Table = HashMap<String, String>;

/// The kind in the table that stands for all kinds.
const ALL_KINDS: &str = "*";

/// Returns the description of a kind's column, or an empty text if it has none.
pub(super) fn of(group: &str, kind: &str, column: &str) -> &'static str {
    static TABLE: OnceLock<Table> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let lines = include_str!("descriptions.txt").lines().filter(|line| !line.starts_with('#'));
        lines
            .filter_map(|line| {
                let (key, description) = line.rsplit_once('\t')?;
                Some((key.to_owned(), description.replace("\\n", "\n")))
            })
            .collect()
    });
    let kind = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
    let found =
        table.get(&format!("{kind}\t{column}")).or_else(|| table.get(&format!("{ALL_KINDS}\t{column}")));
    found.map(String::as_str).unwrap_or_default()
}

#[test]
fn columns_have_the_description_of_their_kind_or_of_all_kinds() {
    assert!(of("", "ConfigMap", "Data").starts_with("Data contains the configuration data."));
    assert!(of("apps", "Deployment", "Name").starts_with("Name must be unique"));
    assert_eq!(of("", "ConfigMap", "None"), "");
}
