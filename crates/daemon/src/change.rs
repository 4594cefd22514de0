use std::collections::BTreeMap;

use warmfront::{DatasetError, DatasetTree, Datasets};

use crate::paths::POOL_NAME_BYTES_MAX;
use crate::protocol::Change;

/// Makes a change in a tree of datasets; to be called in an edit, which is made as a whole.
///
/// # Errors
/// When a dataset, a property or a value is wrong.
pub(crate) fn apply(change: &Change, tree: &mut DatasetTree) -> Result<(), DatasetError> {
    match change {
        Change::Create { dataset, path, properties } => {
            tree.create(dataset, path.as_deref())?;
            set_all(tree, dataset, properties)
        }
        Change::Destroy { dataset, recursive } => tree.destroy(dataset, *recursive),
        Change::Set { dataset, properties } => set_all(tree, dataset, properties),
        Change::Inherit { dataset, property, recursive } => {
            tree.inherit(dataset, property, *recursive)
        }
    }
}

/// Checks the name of a pool.
///
/// # Errors
/// When it is not well formed or too long for a socket's name.
pub(crate) fn check_pool_name(name: &str) -> Result<(), DatasetError> {
    Datasets::new(name)?;
    let wrong = |reason| Err(DatasetError::BadName { name: name.to_string(), reason });
    // A leading dot would hide its files, a leading hyphen would look like an option.
    if !name.starts_with(|letter: char| letter.is_ascii_alphanumeric()) {
        return wrong("the name of a pool begins with a letter or a digit");
    }
    if name.len() > POOL_NAME_BYTES_MAX {
        return wrong("the name of a pool has at most 64 bytes");
    }
    Ok(())
}

/// A pool's name made of any name: what may not stand in one is replaced.
pub(crate) fn pool_name_from(name: &str) -> String {
    let mut pool: String = name
        .chars()
        .map(|letter| match letter {
            letter if letter.is_ascii_alphanumeric() || "_.:-".contains(letter) => letter,
            _ => '_',
        })
        .take(POOL_NAME_BYTES_MAX - 8)
        .collect();
    if !pool.starts_with(|letter: char| letter.is_ascii_alphanumeric()) {
        pool.insert_str(0, "pool");
    }
    pool
}

fn set_all(
    tree: &mut DatasetTree,
    dataset: &str,
    properties: &BTreeMap<String, String>,
) -> Result<(), DatasetError> {
    properties.iter().try_for_each(|(name, value)| tree.set(dataset, name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_made_as_a_whole_or_not_at_all() {
        let datasets = Datasets::new("tank").expect("a name");
        let properties = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        let create = |value: &str| Change::Create {
            dataset: "tank/a".into(),
            path: None,
            properties: properties(&[("freebehind", "on"), ("prefetch", value)]),
        };
        let apply = |change: &Change| datasets.edit(|tree| apply(change, tree));
        apply(&create("some")).expect_err("no such value");
        assert_eq!(datasets.list().len(), 1);
        apply(&create("none")).expect("a value");
        let set = Change::Set {
            dataset: "tank/a".into(),
            properties: properties(&[("freebehind", "off"), ("recordsize", "3")]),
        };
        apply(&set).expect_err("no such value");
        assert!(datasets.local("tank/a").expect("it exists")["freebehind"] == "on");
        let below = Change::Destroy { dataset: "tank/a".into(), recursive: false };
        apply(&below).expect("nothing below it");
    }

    #[test]
    fn any_name_gives_a_pool_a_name() {
        for name in ["slow", "", ".hidden", "-x", "a/b", "gr\u{fc}n", "..", &"x".repeat(300)] {
            let pool = pool_name_from(name);
            check_pool_name(&pool).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert_eq!(pool_name_from("slow data"), "slow_data");
    }
}
