//! What `--help` prints.

/// The usage.
pub(crate) const USAGE: &str = "\
Usage:
  jeprof [options] PROGRAM PROFILE...       profiles are summed
  jeprof [options] SYMBOLIZED-PROFILE...    as written by --raw: names are in the profile
  jeprof [options] [PROGRAM] ADDRESS...     profiles of running processes, which name their addresses without a PROGRAM
  jeprof --symbols PROGRAM                  names for a memory map and addresses on standard input

An ADDRESS is host:port[/prefix][/pprof/heap|growth|contention|profile], with http:// or https:// before it or not; name@N
stands for 0.name to N-1.name. What is fetched is kept in JEPROF_TMPDIR, else in ~/jeprof.

Options may stand anywhere, with one dash or two, as --option=X or --option X, and cut short.

What is printed:
  --interactive        Commands from the keyboard [default on a terminal]
  --text               One line a function [default elsewhere]
  --dot                Call graph in Graphviz's language
  --svg                Call graph as an interactive picture for browsers
  --pdf                Call graph as a picture on a page of 8 by 11 inches
  --collapsed          One line a stack, for flame graphs
  --callgrind          Calls in callgrind's format
  --list=REGEXP        Source lines of the functions that match, as procprof report prints them
  --disasm=REGEXP      Their machine code, likewise
  --symbols            Names of addresses
  --raw                A fetched profile with its names, to be read without the program

What a line stands for:
  --functions          A function [default]
  --lines              A source line
  --files              A source file
  --addresses          An address

Order and difference:
  --cum                By cumulative values
  --base=FILE          Less what FILE has
  --drop_negative      Differences below 0 count as 0

Heap profiles:
  --inuse_space        Megabytes in use [default]
  --inuse_objects      Objects in use
  --alloc_space        Megabytes allocated since the start
  --alloc_objects      Objects allocated since the start
  --show_bytes         Bytes in place of megabytes
  --thread=N|*         One thread, or each by itself

Contention profiles:
  --total_delay        Seconds waited [default]
  --contentions        How often
  --mean_delay         Seconds waited each time

Stacks and call graph:
  --focus=REGEXP       Stacks with a function, place or address that matches
  --ignore=REGEXP      Stacks without
  --retain=REGEXP      Functions that match
  --exclude=REGEXP     Functions that do not
  --nodecount=N        Most nodes [80]
  --nodefraction=F     Nodes above this part of the total [.005]
  --edgefraction=F     Edges above this part of the total [.001]
  --maxdegree=N        Most edges into or out of a node [8]
  --heapcheck          Make nodes stand out that allocate by themselves

Processes and files:
  --seconds=N          How long a process's CPU is profiled [30]
  --add_lib=FILE       A library that is not in the memory map
  --lib_prefix=DIR,... Folders that libraries are looked for below
  --debug-syms-by-id   Also use debug files below /usr/lib/debug/.build-id
  --tools=TOOLS        Accepted, and not needed: no other tool is run
  --help, --version    This text, the version
";
