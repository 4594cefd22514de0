use super::LogTarget;
use super::error::LogError;
use super::marker::Marker;
use crate::error::ControlError;
use crate::paths::{Paths, remove_file};

/// Forgets the log of a pool that is removed. One that may hold what the origin does not is given
/// up first if `force`. What tells of logs that must never be replayed stays.
///
/// # Errors
/// When the log may hold what the origin does not and nothing is forced, or cannot be given up.
pub(crate) fn forget(paths: &Paths, pool: &str, force: bool) -> Result<(), ControlError> {
    let path = paths.log_marker(pool);
    let state = |error| LogError::State { path: path.clone(), error };
    let load = || Marker::load(&path).map_err(state);
    if let Some(marker) = load()?.filter(|marker| marker.in_use.is_some()) {
        if !force {
            let pool = pool.to_string();
            return Err(LogError::Full { path: marker.path, pool }.into());
        }
        LogTarget::find(paths, pool.as_ref())?.discard(paths)?;
    }
    if load()?.is_some_and(|marker| !marker.given_up.is_empty()) {
        return Ok(());
    }
    Ok(remove_file(&path).map_err(state)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_forgotten_is() {
        let base = tempfile::tempdir().expect("a directory");
        let paths = Paths::new(base.path().join("c"), base.path().join("r"));
        let file = paths.log_marker("tank");
        let mut marker = Marker {
            in_use: Some("07".to_string()),
            epoch: 0,
            path: "/flash/log".into(),
            pool: "tank".into(),
            origin: "/slow".into(),
            since: String::new(),
            given_up: Vec::new(),
        };
        forget(&paths, "tank", false).expect("there is nothing to forget");
        marker.save(&file).expect("written");
        let refused = forget(&paths, "tank", false);
        assert!(matches!(refused, Err(ControlError::Log(LogError::Full { .. }))), "{refused:?}");
        assert!(file.exists(), "it is known as before");
        marker.in_use = None;
        marker.save(&file).expect("written");
        forget(&paths, "tank", false).expect("the origin has everything");
        assert!(!file.exists());
        marker.give_up("07");
        marker.save(&file).expect("written");
        forget(&paths, "tank", false).expect("the origin has everything");
        assert!(file.exists(), "should the log come again, it must not be replayed");
    }
}
