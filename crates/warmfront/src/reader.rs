use crate::property::Properties;

/// Whether what somebody reads counts as use of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reader {
    /// It does.
    #[default]
    Counted,
    /// It does not, and what is missing is not kept: a backup, which reads everything once.
    Passing,
}

impl Reader {
    /// Whether what is read under these properties counts as use.
    pub(crate) fn promotes(self, properties: &Properties) -> bool {
        properties.promote && self == Reader::Counted
    }
}
