use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};

use super::ExperimentError;
use crate::machine::{MachineError, MachineParameters};
use crate::model::Equipment;

/// Machines and equipment that an experiment names by their files; other names are of what comes
/// with the lab.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Files {
    machines: BTreeMap<String, MachineParameters>,
    equipment: BTreeMap<String, Equipment>,
}

impl Files {
    /// Reads what a procedure names, below this directory.
    pub fn read(procedure: &Table, directory: &Path) -> Result<Files, ExperimentError> {
        let mut files = Files::default();
        files.find(procedure, directory)?;
        Ok(files)
    }

    fn find(&mut self, table: &Table, directory: &Path) -> Result<(), ExperimentError> {
        for (key, value) in table {
            match (key.as_str(), value) {
                ("machine", Value::String(name)) if Equipment::is_file(name) => {
                    let machine =
                        MachineParameters::read(&Equipment::path_beside(directory, name))?;
                    self.machines.insert(name.clone(), machine);
                }
                ("disk", Value::String(name)) => self.add(name, directory)?,
                ("device", Value::Table(device)) => {
                    if let Some(Value::String(name)) = device.get("name") {
                        self.add(name, directory)?;
                    }
                }
                (_, Value::Table(table)) => self.find(table, directory)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn add(&mut self, name: &str, directory: &Path) -> Result<(), ExperimentError> {
        if Equipment::is_file(name) {
            let equipment = Equipment::read(&Equipment::path_beside(directory, name))?;
            self.equipment.insert(name.to_owned(), equipment);
        }
        Ok(())
    }

    pub fn machine(&self, name: &str) -> Result<MachineParameters, MachineError> {
        let own = self.machines.get(name).cloned();
        own.map_or_else(|| MachineParameters::shipped(name), Ok)
    }

    pub fn equipment(&self, name: &str) -> Result<Equipment, ExperimentError> {
        let own = self.equipment.get(name).cloned();
        own.map_or_else(|| Ok(Equipment::shipped(name)?), Ok)
    }
}
