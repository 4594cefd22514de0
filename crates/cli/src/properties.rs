//! The properties in words, as the engine's table has them: for the help, and for `docs`.

use std::fmt::Write;

use warmfront::PROPERTIES;

use crate::bars::width;
use crate::format::folded;

/// All properties, for the end of a command's help.
pub(crate) fn help() -> String {
    let width = width().min(100);
    let mut text = String::from("Properties:");
    for property in PROPERTIES {
        let head = format!("{}={} [default: {}]", property.name, property.values, property.default);
        let head = folded(&head, width - 2).join("\n    ");
        let body = folded(property.long_help, width - 6).join("\n      ");
        let _ = write!(text, "\n\n  {head}\n      {body}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Writes the page anew where it is set.
    const WRITE: &str = "WARMFRONT_WRITE_DOCS";

    /// The page of all properties.
    fn page() -> String {
        let mut text = String::from(
            "# Properties\n\n\
             What can be set on a pool and on the datasets in it, as `warmfront help set` tells \
             it. [Tuning](tuning.md) says\nwhen to turn which. This page is written by \
             `WARMFRONT_WRITE_DOCS=1 cargo test --release -p warmfront-cli properties`.\n",
        );
        for property in PROPERTIES {
            let inherited = if property.inherited { "inherited" } else { "not inherited" };
            let values = property.values.replace('|', "`, `");
            let values = match property.values.contains(' ') {
                true => property.values.to_string(),
                false => format!("`{values}`"),
            };
            let lines = folded(property.long_help, 120).join("\n");
            let (name, default) = (property.name, property.default);
            let _ = write!(
                text,
                "\n## {name}\n\n| values | default | |\n|---|---|---|\n\
                 | {values} | `{default}` | {inherited} |\n\n{lines}\n",
            );
        }
        text
    }

    #[test]
    fn the_page_of_properties_is_what_the_table_says() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/properties.md");
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&path, page()).expect("docs can be written");
        }
        let found = std::fs::read_to_string(&path).expect("docs/properties.md is there");
        assert!(found == page(), "docs/properties.md is old; {WRITE}=1 writes it anew");
    }

    #[test]
    fn the_help_has_every_property() {
        let text = help();
        for property in PROPERTIES {
            assert!(text.contains(&format!("  {}=", property.name)), "{}", property.name);
        }
    }
}
