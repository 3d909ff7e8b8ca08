//! Filters of system calls, as containers and sandboxes have them.

/// Makes calls fail with `EPERM` in all threads of this process.
pub(crate) fn refuse(calls: &[libc::c_long]) {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const FAIL: u32 = 0x0005_0000;
    const SET_FILTER: libc::c_ulong = 1;
    const ALL_THREADS: libc::c_ulong = 1;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = vec![step(LOAD_NUMBER, 0, 0, 0)];
    for call in calls {
        steps.push(step(JUMP_IF_EQUAL, 0, 1, *call as u32));
        steps.push(step(RETURN, 0, 0, FAIL | libc::EPERM as u32));
    }
    steps.push(step(RETURN, 0, 0, ALLOW));
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the kernel copies the program.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::syscall(libc::SYS_seccomp, SET_FILTER, ALL_THREADS, &raw const program), 0);
    }
}
