use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use storage::{Allocation, ObjectId, OpenMode, OriginError, OriginFile, SetAttributes, XattrMode};
use zil::{Found, Place, Record, Recovery};

use super::find::{Fate, is_gone};
use super::ledger::Index;
use super::report::{SkipReason, Skipped};
use super::{Replay, ReplayError, ReplayProgress, TELL_RECORDS};

/// Most files that are kept open.
const OPEN_MAX: usize = 64;

/// Files that were written to lately.
#[derive(Default)]
struct OpenFiles {
    files: HashMap<ObjectId, Arc<dyn OriginFile>>,
    order: VecDeque<ObjectId>,
}

/// What was left out of a thing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LeftOut {
    pub records: u64,
    pub data_bytes: u64,
}

impl Replay<'_> {
    /// Applies everything but names.
    pub(super) async fn apply(
        &mut self,
        recovery: &mut Recovery,
        found: &Found,
    ) -> Result<(), ReplayError> {
        recovery.rewind();
        let mut files = OpenFiles::default();
        let (records, mut done) = (found.records(), 0);
        while let Some((position, record)) = recovery.next().await? {
            if let Some(place) = changed(&record)
                && let Some(index) = self.ledger.meant(position, place.object)
            {
                match &self.fates[index] {
                    // It is deleted in the end.
                    Fate::There(_) if self.ledger.things[index].is_deleted() => {}
                    Fate::There(there) => {
                        let object = there.object;
                        match self.change(object, &record, &mut files).await {
                            Ok(()) => {}
                            Err(error) if is_gone(&error) => {
                                self.leave_out(index, &record);
                            }
                            Err(error) => return Err(self.failed(index, error)),
                        }
                    }
                    // It was brought to where it should be before.
                    Fate::StoodFor(_) => {}
                    Fate::Unknown | Fate::Lost => self.leave_out(index, &record),
                }
            }
            done += 1;
            if done % TELL_RECORDS == 0 || done == records {
                (self.tell)(ReplayProgress::Applying { done, records });
            }
        }
        Ok(())
    }

    fn leave_out(&mut self, index: Index, record: &Record<'_>) {
        let left_out = self.left_out.entry(index).or_default();
        left_out.records += 1;
        left_out.data_bytes += record.data_bytes();
    }

    async fn change(
        &self,
        object: ObjectId,
        record: &Record<'_>,
        files: &mut OpenFiles,
    ) -> Result<(), OriginError> {
        match record {
            Record::Write { offset, data, .. } => {
                self.open(object, files).await?.write(*offset, data).await
            }
            Record::Truncate { size, .. } => {
                let change = SetAttributes { size: Some(*size), ..Default::default() };
                self.origin.set_attributes(object, change).await.map(drop)
            }
            Record::Allocate { mode, offset, length, .. } => {
                let allocation = Allocation { mode: *mode, offset: *offset, length: *length };
                self.open(object, files).await?.allocate(allocation).await
            }
            Record::SetAttributes { change, .. } if self.options.names_lasted => {
                // Writing changes times, which are therefore set again; a size is of the contents.
                let SetAttributes { size, accessed, modified, .. } = *change;
                let change = SetAttributes { size, accessed, modified, ..Default::default() };
                match change == SetAttributes::default() {
                    true => Ok(()),
                    false => self.origin.set_attributes(object, change).await.map(drop),
                }
            }
            Record::SetXattr { .. } | Record::RemoveXattr { .. } if self.options.names_lasted => {
                Ok(())
            }
            Record::SetAttributes { change, .. } => {
                self.origin.set_attributes(object, *change).await.map(drop)
            }
            Record::SetXattr { name, value, .. } => {
                self.origin.set_xattr(object, name, value, XattrMode::Any).await
            }
            Record::RemoveXattr { name, .. } => {
                match self.origin.remove_xattr(object, name).await {
                    Err(error) if error.is_no_attribute() => Ok(()),
                    removed => removed,
                }
            }
            _ => Ok(()),
        }
    }

    async fn open(
        &self,
        object: ObjectId,
        files: &mut OpenFiles,
    ) -> Result<Arc<dyn OriginFile>, OriginError> {
        if let Some(file) = files.files.get(&object) {
            return Ok(file.clone());
        }
        if files.order.len() == OPEN_MAX
            && let Some(oldest) = files.order.pop_front()
        {
            files.files.remove(&oldest);
        }
        let mode = OpenMode { write: true, ..OpenMode::default() };
        let file = self.origin.open(object, mode).await?;
        files.files.insert(object, file.clone());
        files.order.push_back(object);
        Ok(file)
    }

    /// Reports the things that are nowhere although they should be.
    pub(super) async fn report_missing(&mut self) -> Result<(), ReplayError> {
        let left_out = std::mem::take(&mut self.left_out);
        for index in 0..self.fates.len() {
            let thing = &self.ledger.things[index];
            let is_deleted = thing.is_deleted();
            let is_missing = matches!(self.fates[index], Fate::Unknown | Fate::Lost);
            let LeftOut { records, data_bytes } = left_out.get(&index).copied().unwrap_or_default();
            if !is_missing || is_deleted || (thing.bound.is_empty() && records == 0) {
                continue;
            }
            if self.was_replaced(index).await? {
                continue;
            }
            let reason = match self.occupied.get(&index) {
                Some(reason) => *reason,
                None => SkipReason::Missing,
            };
            let path = self.ledger.path(index);
            self.report.skip(Skipped { path, reason, records, data_bytes });
        }
        Ok(())
    }

    /// Whether all names of a thing lead to others of which the log speaks: these were renamed over
    /// it after the last record, so that nothing of it is missed.
    async fn was_replaced(&mut self, index: Index) -> Result<bool, ReplayError> {
        let path = self.ledger.path(index);
        let bound = self.ledger.things[index].bound.clone();
        if bound.is_empty() {
            return self.is_another_at(index, &path).await;
        }
        for (parent, name) in bound {
            let Some(directory) = self.fates[parent].directory() else { return Ok(false) };
            if !self.is_another(index, directory, &name).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn is_another_at(&mut self, index: Index, path: &OsStr) -> Result<bool, ReplayError> {
        let mut names: Vec<&OsStr> =
            path.as_bytes().split(|&byte| byte == b'/').map(OsStr::from_bytes).collect();
        let Some(last) = names.pop() else { return Ok(false) };
        let mut directory = self.root;
        for name in names {
            let Some(entry) = self.occupant(directory, name).await? else { return Ok(false) };
            directory = entry.object;
        }
        self.is_another(index, directory, last).await
    }

    /// Whether a name leads to another thing of which the log speaks.
    async fn is_another(
        &mut self,
        index: Index,
        directory: ObjectId,
        name: &OsStr,
    ) -> Result<bool, ReplayError> {
        let Some(entry) = self.occupant(directory, name).await? else { return Ok(false) };
        let found = self.recognise_made(&entry);
        Ok(found.is_some_and(|(other, is_sure)| is_sure && other != index))
    }
}

/// The object that a record changes, unless it is about names.
fn changed<'r>(record: &'r Record<'_>) -> Option<&'r Place<'r>> {
    match record {
        Record::Write { file, .. }
        | Record::Truncate { file, .. }
        | Record::Allocate { file, .. } => Some(file),
        Record::SetAttributes { object, .. }
        | Record::SetXattr { object, .. }
        | Record::RemoveXattr { object, .. } => Some(object),
        _ => None,
    }
}
