//! Where regions are in the source, by their code addresses.

use std::collections::HashMap;

use slimline_attribute::module::Module;
use slimline_attribute::module::store::FileStore;
use slimline_regions::{Code, Profile};
use slimline_trace::address::Svma;

use crate::disk::Disk;

/// Looks up code of regions in the files that it is in, which must still be those that ran.
pub(crate) fn look_up(profiles: &mut [Profile]) {
    let store = FileStore::new(&Disk);
    let mut modules = HashMap::new();
    for profile in profiles {
        let found = profile.addresses().into_iter().filter_map(|(address, instruction)| {
            let (path, offset) = profile.locate(instruction)?;
            let module = modules.entry(path.to_owned()).or_insert_with(|| Module::open(&store, path));
            code(module, address, offset)
        });
        profile.code = found.collect();
    }
}

fn code(module: &Module<'_>, address: u64, offset: u64) -> Option<Code> {
    let segments = module.image()?.segments();
    let segment = segments.iter().find(|segment| {
        let end = segment.file_offset.checked_add(segment.data.len() as u64);
        segment.executable && segment.file_offset <= offset && end.is_some_and(|end| offset < end)
    })?;
    let frames = module.frames(Svma(segment.svma.0.checked_add(offset - segment.file_offset)?));
    let frame = frames.first()?;
    let function = if frame.is_named() { frame.function.clone() } else { String::new() };
    let (file, line) = match &frame.position {
        Some(position) => (position.file.clone(), position.line),
        None => (String::new(), 0),
    };
    Some(Code { address, function, file, line })
}
