//! Newtypes for every kind of number that must not be mistaken for another.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The position in the table the id belongs to.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// Position of a string in the profile's [`StringTable`](crate::StringTable); 0 is the empty string.
    StringId
);
id!(
    /// Position of a [`Mapping`](crate::Mapping) in its profile.
    MappingId
);
id!(
    /// Position of a [`Location`](crate::Location) in its profile.
    LocationId
);
id!(
    /// Position of a [`Function`](crate::Function) in its profile.
    FunctionId
);

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({:#x})", stringify!($name), self.0)
            }
        }

        impl std::fmt::LowerHex for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::LowerHex::fmt(&self.0, f)
            }
        }
    };
}

address!(
    /// A virtual address inside the profiled process.
    Addr
);
address!(
    /// A byte offset inside an executable or library file.
    FileOffset
);
address!(
    /// An address as an image's own symbol table and debug information spell it (its link-time virtual address).
    SymbolAddr
);

/// Nanoseconds: since the Unix epoch (UTC) for a moment, plain for a duration; 0 when unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub i64);
