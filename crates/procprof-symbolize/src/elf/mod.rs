//! ELF files: headers, sections, symbol tables, and an [`Image`] with the separate files that belong to it.

pub(crate) mod debug_file;
mod file_bytes;
mod go_table;
mod header;
mod image;
mod image_cache;
mod inflate;
mod layout;
pub(crate) mod mini_debug;
mod parsed;
pub(crate) mod sections;
mod split_folders;
pub(crate) mod symbols;

pub use self::debug_file::{DebugFile, FoundBy};
pub(crate) use self::file_bytes::FileBytes;
pub use self::go_table::{GoFunction, GoTable};
pub(crate) use self::header::parse_elf;
pub use self::image::Image;
pub(crate) use self::image_cache::ImageCache;
pub use self::layout::LayoutKey;
pub(crate) use self::layout::Segment;
pub(crate) use self::parsed::ParsedImage;
pub(crate) use self::sections::{Needed, SectionError};
pub(crate) use self::split_folders::SplitFolders;
pub(crate) use self::symbols::Symbols;
pub(crate) use self::symbols::order::{Entry, Order};
pub(crate) use self::symbols::table::Table;
