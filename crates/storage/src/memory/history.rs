use std::fmt::{self, Debug, Formatter};

use rustix::io::Result;

use super::contents::Contents;
use super::state::{Moment, State, is_too_far};
use crate::simulation::Random;
use crate::{ObjectId, Timestamp};

/// What an origin in memory holds; and, where crashes are to be tried, what of it may be lost.
pub(super) struct Store {
    pub state: State,
    history: Option<Box<History>>,
}

/// What a step is about: it lasts when that is made to last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Names alone.
    Names,
    /// The object that it makes.
    Made,
    /// This object, as one finds its contents.
    Contents(ObjectId),
    /// Attributes of this object.
    Attributes(ObjectId),
}

/// What was done since everything last lasted.
struct History {
    /// What held then.
    lasting: State,
    entries: Vec<Entry>,
    /// The entries before this one last, if they are steps: they last in order.
    steps_last: usize,
    events: u64,
}

struct Entry {
    moment: Moment,
    change: Change,
}

enum Change {
    Step { extent: Extent, step: Box<dyn Fn(&mut State) + Send> },
    Write(Write),
}

struct Write {
    object: ObjectId,
    /// Tells it from another object with that id.
    born: Option<Timestamp>,
    offset: u64,
    data: Vec<u8>,
    lasts: bool,
}

impl Debug for Store {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Store").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Store {
    pub fn new(state: State) -> Store {
        Store { state, history: None }
    }

    /// Notes from now on what is done. All that is there lasts.
    pub fn with_history(state: State) -> Store {
        let lasting = state.clone();
        let history = History { lasting, entries: Vec::new(), steps_last: 0, events: 0 };
        Store { state, history: Some(Box::new(history)) }
    }

    /// Takes a step. Taken again it does the same, and is taken only if it succeeds.
    pub fn change<T>(
        &mut self,
        extent: Extent,
        step: impl Fn(&mut State) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let moment = self.state.moment();
        let outcome = step(&mut self.state)?;
        if let Some(history) = &mut self.history {
            let extent = match extent {
                Extent::Made => Extent::Contents(ObjectId(moment.next)),
                extent => extent,
            };
            let step = Box::new(move |state: &mut State| drop(step(state)));
            history.push(moment, Change::Step { extent, step });
        }
        Ok(outcome)
    }

    /// Writes to a file at `offset`, or else at its end, and returns where.
    pub fn write(&mut self, object: ObjectId, offset: Option<u64>, data: &[u8]) -> Result<u64> {
        let moment = self.state.moment();
        let offset = self.state.change_contents(object, |contents| {
            let offset = offset.unwrap_or_else(|| contents.size());
            is_too_far(offset, data.len() as u64)?;
            contents.write(offset, data);
            Ok(offset)
        })?;
        if let Some(history) = &mut self.history {
            let born = self.state.attributes(object)?.born;
            let data = data.to_vec();
            let write = Write { object, born, offset, data, lasts: false };
            history.push(moment, Change::Write(write));
        }
        Ok(offset)
    }

    /// Makes everything last.
    pub fn sync(&mut self) {
        if let Some(history) = &mut self.history {
            history.lasting = self.state.clone();
            history.entries.clear();
            history.steps_last = 0;
            history.events += 1;
        }
    }

    /// Makes all names last.
    pub fn sync_names(&mut self) {
        if let Some(history) = &mut self.history {
            history.steps_last = history.entries.len();
            history.events += 1;
        }
    }

    /// Makes a file last: its contents, that it exists, and unless `data_only` its attributes;
    /// and all steps before those.
    pub fn sync_file(&mut self, synced: ObjectId, data_only: bool) {
        let born = self.state.attributes(synced).ok().and_then(|attributes| attributes.born);
        let Some(history) = &mut self.history else { return };
        history.events += 1;
        for (index, entry) in history.entries.iter_mut().enumerate() {
            match &mut entry.change {
                Change::Write(write) if (write.object, write.born) == (synced, born) => {
                    write.lasts = true;
                }
                Change::Step { extent, .. }
                    if *extent == Extent::Contents(synced)
                        || (*extent == Extent::Attributes(synced) && !data_only) =>
                {
                    history.steps_last = history.steps_last.max(index + 1);
                }
                _ => {}
            }
        }
    }

    /// How much has happened, if that is noted.
    pub fn events(&self) -> u64 {
        self.history.as_ref().map_or(0, |history| history.events)
    }

    /// What a process finds that is started after another one was killed.
    pub fn kill(&self) -> State {
        let mut state = self.state.clone();
        state.start_anew(self.state.moment());
        state
    }

    /// What a machine could find after a crash at this moment, another one for each seed.
    pub fn crash(&self, seed: u64) -> State {
        let Some(history) = &self.history else { return self.kill() };
        let mut state = history.lasting.clone();
        history.take_again(&mut state, &mut Random::new(seed));
        state.start_anew(self.state.moment());
        state
    }
}

/// What is left of writes.
#[derive(Clone, Copy)]
enum Manner {
    None,
    All,
    /// Any of them.
    Some,
    /// Any parts of this length.
    Torn(u64),
}

impl History {
    fn push(&mut self, moment: Moment, change: Change) {
        self.entries.push(Entry { moment, change });
        self.events += 1;
    }

    /// Does again what a crash could have left.
    fn take_again(&self, state: &mut State, random: &mut Random) {
        let end = self.entries.len();
        let open = (end - self.steps_last) as u64;
        let steps_end = match random.below(4) {
            0 => self.steps_last,
            1 => end,
            _ => end - random.below(open + 1) as usize,
        };
        let manner = match random.below(5) {
            0 => Manner::None,
            1 => Manner::All,
            2 => Manner::Some,
            3 => Manner::Torn(512),
            _ => Manner::Torn(4096),
        };
        // A file may have grown although what was written there is lost.
        let grows = random.below(2) == 0;
        for (index, Entry { moment, change }) in self.entries.iter().enumerate() {
            match change {
                Change::Step { step, .. } if index < steps_end => {
                    state.go_to(*moment);
                    step(state);
                }
                Change::Step { .. } => {}
                Change::Write(write) => {
                    let found = state.attributes(write.object);
                    if found.is_ok_and(|found| found.born == write.born) {
                        let before = state.moment();
                        state.go_to(*moment);
                        let left = if write.lasts { Manner::All } else { manner };
                        let put = |contents: &mut Contents| {
                            write.put(contents, left, grows, random);
                            Ok(())
                        };
                        // It is there, and it is a file.
                        let _ = state.change_contents(write.object, put);
                        state.go_to(before);
                    }
                }
            }
        }
    }
}

impl Write {
    fn put(&self, contents: &mut Contents, manner: Manner, grows: bool, random: &mut Random) {
        let length = self.data.len() as u64;
        let mut start = 0;
        while start < length {
            let at = self.offset + start;
            let end = match manner {
                Manner::Torn(bytes) => length.min(start + bytes - at % bytes),
                _ => length,
            };
            let is_there = match manner {
                Manner::None => false,
                Manner::All => true,
                Manner::Some | Manner::Torn(_) => random.below(2) == 0,
            };
            if is_there {
                contents.write(at, &self.data[start as usize..end as usize]);
            }
            start = end;
        }
        let end = self.offset + length;
        if grows && length > 0 && contents.size() < end && random.below(2) == 0 {
            contents.resize(end);
        }
    }
}
