//! A folder of profiles: put, list, open, retain; journal; a rebuildable catalog.
