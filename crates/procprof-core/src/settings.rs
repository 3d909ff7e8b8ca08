//! The fixed facts about this server: its configuration, folders, address and machine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use crate::config::Config;
use crate::ownership::WatchedFolder;

/// The configuration, which a reload replaces, and what stays until the end.
pub struct Settings {
    config: RwLock<Arc<Config>>,
    /// Folder of profiles, journal and catalog.
    pub data: PathBuf,
    /// The data folder and that of the profiles in it, as they were opened.
    pub folders: Vec<WatchedFolder>,
    /// The address that HTTP is bound to.
    pub bound: SocketAddr,
    /// This machine's name.
    pub machine: String,
}

impl Settings {
    /// Settings of this machine's server.
    pub fn new(config: Config, data: PathBuf, places: Vec<WatchedFolder>, bound: SocketAddr) -> Settings {
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Settings { config: RwLock::new(Arc::new(config)), data, folders: places, bound, machine }
    }

    /// The configuration at this moment.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another configuration in the place of this one.
    pub fn replace(&self, config: Config) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }
}
