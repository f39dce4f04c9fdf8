//! `slimline machine`

use super::print;
use crate::{cli, machines};

pub(crate) fn run(options: &cli::MachineName) -> anyhow::Result<u8> {
    print(&machines::called(&options.name, &options.name)?.to_toml())?;
    Ok(0)
}
