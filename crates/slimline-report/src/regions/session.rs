//! Names of the regions that samples of a session are in.

use slimline_regions::{PathId, Profile};
use slimline_trace::access::ThreadId;

use super::place;
use crate::text::region_place;

/// Profiles of a session's processes, by its threads.
#[derive(Clone, Debug, Default)]
pub struct SessionRegions {
    /// Which of the profiles, by thread.
    of_thread: Vec<Option<usize>>,
    profiles: Vec<Profile>,
}

impl SessionRegions {
    /// Of each process how many threads it has in the session, and its profile, if it wrote one.
    #[must_use]
    pub fn of(processes: impl IntoIterator<Item = (usize, Option<Profile>)>) -> Self {
        let mut all = Self::default();
        for (threads, profile) in processes {
            let number = profile.map(|profile| {
                all.profiles.push(profile);
                all.profiles.len() - 1
            });
            all.of_thread.extend(std::iter::repeat_n(number, threads));
        }
        all
    }

    /// Whether no process has regions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.profiles.is_empty()
    }

    /// The region of a path of a thread's process, and its file.
    pub(crate) fn name(&self, thread: ThreadId, path: u32) -> (String, String) {
        if path == 0 {
            return ("outside of regions".to_owned(), String::new());
        }
        let profile = self.of_thread.get(thread.index()).copied().flatten().map(|number| &self.profiles[number]);
        match profile.and_then(|profile| Some((profile, profile.node(PathId(path))?))) {
            Some((profile, node)) => {
                let at = place(profile, &node.region, 0);
                (format!("{} {}", at.kind, region_place(&at)), at.file.unwrap_or_default())
            }
            None => ("region not known".to_owned(), String::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regions::a_profile::profile;

    #[test]
    fn paths_have_the_names_of_their_own_processs_regions() {
        let regions = SessionRegions::of([(2, None), (1, Some(profile()))]);
        let name = |thread, path| regions.name(ThreadId(thread), path).0;
        assert_eq!(name(2, 0), "outside of regions");
        // Two code addresses of one line are one region.
        assert_eq!([3, 4].map(|path| name(2, path)), ["loop sum.c:12 main"; 2]);
        assert_eq!(name(2, 1), "user read input");
        assert_eq!([name(2, 9), name(0, 1), name(7, 1)], ["region not known"; 3]);
        assert!(SessionRegions::of([(3, None)]).is_empty() && !regions.is_empty());
    }
}
