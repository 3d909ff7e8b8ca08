/* What a C or C++ program may ask of libprocprof_preload.so.
 *
 * The program needs no library to link with: without the library in LD_PRELOAD (or linked, -lprocprof_preload) every call does nothing and answers
 * as if it had failed, with procprof_error() saying why.
 *
 *     if (procprof_start("127.0.0.1:6060") != 0)
 *         fprintf(stderr, "no profiler: %s\n", procprof_error());
 *
 * All functions may be called from any thread. None may be called from a signal handler, or between vfork and exec.
 */
#ifndef PROCPROF_H
#define PROCPROF_H

#ifdef __cplusplus
extern "C" {
#define PROCPROF_INLINE inline
#else
#define PROCPROF_INLINE static inline
#endif

/* Starts the agent. LISTEN is ADDRESS:PORT, such as "127.0.0.1:6060" or "[::1]:0" (a free port: see procprof_port); "" is no listener, for a program
 * that only writes files; NULL is what PROCPROF_LISTEN says. All else comes from the environment. 0, or -1 for a reason: an address that is taken, or
 * an agent that runs already. A thread, "procprof-http", exists while it listens. */
PROCPROF_INLINE int procprof_start(const char *listen);

/* Ends the agent and its threads; captures that are being made end early. Does nothing where none runs. */
PROCPROF_INLINE void procprof_stop(void);

/* The port it listens on; 0 where it does not. */
PROCPROF_INLINE int procprof_port(void);

/* Writes what GET ENDPOINT answers to FILE: "/debug/pprof/heap", "/debug/pprof/profile?seconds=10" (the call takes ten seconds), "/pprof/heap".
 * 0, or -1 for a reason. */
PROCPROF_INLINE int procprof_dump(const char *endpoint, const char *file);

/* CPU and wall samples of the calling thread carry KEY=VALUE until procprof_label_pop(), which ends the last one. Costs tens of nanoseconds, profiles
 * running or not. A thread has room for 16 labels of together 512 bytes; further ones are left out and counted in the profile. */
PROCPROF_INLINE void procprof_label_push(const char *key, const char *value);
PROCPROF_INLINE void procprof_label_pop(void);

/* Why the calling thread's last call failed; valid until its next call. */
PROCPROF_INLINE const char *procprof_error(void);

/* Whether the library is there. */
PROCPROF_INLINE int procprof_is_loaded(void);

/* The library's own symbols, absent without it. */
__attribute__((weak)) int procprof_v1_start(const char *listen);
__attribute__((weak)) void procprof_v1_stop(void);
__attribute__((weak)) int procprof_v1_port(void);
__attribute__((weak)) int procprof_v1_dump(const char *endpoint, const char *file);
__attribute__((weak)) void procprof_v1_label_push(const char *key, const char *value);
__attribute__((weak)) void procprof_v1_label_pop(void);
__attribute__((weak)) const char *procprof_v1_error(void);

PROCPROF_INLINE int procprof_is_loaded(void) { return procprof_v1_start != 0; }

PROCPROF_INLINE int procprof_start(const char *listen) { return procprof_v1_start ? procprof_v1_start(listen) : -1; }

PROCPROF_INLINE void procprof_stop(void) {
    if (procprof_v1_stop)
        procprof_v1_stop();
}

PROCPROF_INLINE int procprof_port(void) { return procprof_v1_port ? procprof_v1_port() : 0; }

PROCPROF_INLINE int procprof_dump(const char *endpoint, const char *file) {
    return procprof_v1_dump ? procprof_v1_dump(endpoint, file) : -1;
}

PROCPROF_INLINE void procprof_label_push(const char *key, const char *value) {
    if (procprof_v1_label_push)
        procprof_v1_label_push(key, value);
}

PROCPROF_INLINE void procprof_label_pop(void) {
    if (procprof_v1_label_pop)
        procprof_v1_label_pop();
}

PROCPROF_INLINE const char *procprof_error(void) {
    return procprof_v1_error ? procprof_v1_error() : "libprocprof_preload.so is not loaded";
}

#ifdef __cplusplus
}

namespace procprof {

/* Labels the samples of its scope: procprof::Label query("query_id", id.c_str()); */
class Label {
public:
    Label(const char *key, const char *value) { procprof_label_push(key, value); }
    ~Label() { procprof_label_pop(); }
    Label(const Label &) = delete;
    Label &operator=(const Label &) = delete;
};

} // namespace procprof
#endif

#endif
