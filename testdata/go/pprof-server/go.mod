module pprof-server

go 1.19
