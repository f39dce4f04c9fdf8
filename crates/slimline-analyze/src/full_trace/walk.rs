//! Going through a batch: what allocates and frees in its order, what only loads and stores collected in between.

use slimline_trace::stream::decode::{Program, SiteId, Visits};
use slimline_trace::stream::sites::Site;

use super::TraceBatch;
use super::heap::blocks::Allocations;
use super::plans::{Plan, Plans};
use super::spots::Memory;

/// Who wants to know whose accesses are.
pub(super) trait Accessing {
    /// Whether it wants to know at all.
    fn is_asking(&self) -> bool {
        true
    }

    /// A segment that loads and stores only, whose words are all there. Whose its accesses are is asked later, up to [`Self::settle`].
    fn collect(&mut self, visits: Visits);

    /// Asks whose what was collected is: blocks are about to change, or the batch ends.
    fn settle(&mut self, by: (&Program, &Plans), batch: &TraceBatch<'_>, memory: &mut Memory<'_>);

    /// One visit of any other site that neither allocates nor frees; `own` are its words.
    fn site(&mut self, plans: &Plans, memory: &mut Memory<'_>, id: SiteId, site: &Site, own: &[u64]);
}

/// Goes through a batch of segments that there are plans of.
pub(super) fn go_through(
    (program, plans): (&Program, &Plans),
    batch: &TraceBatch<'_>,
    allocations: &mut Allocations,
    memory: &mut Memory<'_>,
    accessing: &mut impl Accessing,
) {
    let is_asking = accessing.is_asking();
    for visits in batch.visits {
        if !is_asking && !plans.is_by_site(visits.segment) {
            continue;
        }
        let words = || program.segments()[visits.segment.0 as usize].words;
        match plans.of(visits.segment) {
            Plan::Skip => {}
            Plan::LoadsAndStores if visits.end(words()) <= batch.words.len() => accessing.collect(*visits),
            plan @ (Plan::LoadsAndStores | Plan::Sites { .. }) => {
                if let Plan::Sites { changes_blocks: true } = plan {
                    accessing.settle((program, plans), batch, memory);
                }
                for words in batch.words_of_each(*visits, words()) {
                    for (id, site, own) in program.sites_with_words(visits.segment, words) {
                        if !allocations.follow(memory.live, memory.elements, batch, id, site.kind, &own) {
                            accessing.site(plans, memory, id, site, &own);
                        }
                    }
                }
            }
        }
    }
    accessing.settle((program, plans), batch, memory);
}
