//! Paths in JSON: text where they are UTF-8, else their bytes as an array of numbers.
//!
//! For use as `#[serde(with = "wire_path")]`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize)]
#[serde(untagged)]
enum Outgoing<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Incoming {
    Text(String),
    Bytes(Vec<u8>),
}

impl<'a> From<&'a Path> for Outgoing<'a> {
    fn from(path: &'a Path) -> Outgoing<'a> {
        match path.to_str() {
            Some(text) => Outgoing::Text(text),
            None => Outgoing::Bytes(path.as_os_str().as_bytes()),
        }
    }
}

impl From<Incoming> for PathBuf {
    fn from(incoming: Incoming) -> PathBuf {
        match incoming {
            Incoming::Text(text) => text.into(),
            Incoming::Bytes(bytes) => OsString::from_vec(bytes).into(),
        }
    }
}

/// Writes one path.
pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    Outgoing::from(path).serialize(serializer)
}

/// Reads one path.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Incoming::deserialize(deserializer).map(PathBuf::from)
}

/// The same for a path that may be absent.
pub mod option {
    use super::{Deserialize, Deserializer, Incoming, Outgoing, PathBuf, Serialize, Serializer};

    /// Writes the path, or null.
    pub fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_deref().map(Outgoing::from).serialize(serializer)
    }

    /// Reads a path, or null.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<Incoming>::deserialize(deserializer)?.map(PathBuf::from))
    }
}

/// The same for a list of paths.
pub mod list {
    use super::{Deserialize, Deserializer, Incoming, Outgoing, PathBuf, Serializer};

    /// Writes the paths.
    pub fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| Outgoing::from(path.as_path())))
    }

    /// Reads paths.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<PathBuf>, D::Error> {
        let paths = Vec::<Incoming>::deserialize(deserializer)?;
        Ok(paths.into_iter().map(PathBuf::from).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Paths {
        #[serde(with = "crate::wire_path")]
        one: PathBuf,
        #[serde(with = "crate::wire_path::option")]
        none: Option<PathBuf>,
        #[serde(with = "crate::wire_path::list")]
        many: Vec<PathBuf>,
    }

    #[test]
    fn any_path_survives_the_wire() {
        let odd = PathBuf::from(OsString::from_vec(b"/odd-\xff\n".to_vec()));
        let paths = Paths { one: odd.clone(), none: None, many: vec!["/plain".into(), odd] };
        let text = serde_json::to_string(&paths).expect("any path can be written");
        assert!(text.contains("\"/plain\""), "{text}");
        assert_eq!(serde_json::from_str::<Paths>(&text).expect("and read"), paths);
    }
}
