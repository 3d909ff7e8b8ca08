# Frames that no compiler makes: hand-written call frame information.
    .text
    .globl asm_shapes
    .type asm_shapes, @function
# long asm_shapes(long (*call)(long), long argument): calls back from each shape.
asm_shapes:
    .cfi_startproc
    endbr64
    push %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbx, 0
    push %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbp, 0
    sub $8, %rsp
    .cfi_adjust_cfa_offset 8
    mov %rdi, %rbx
    mov %rsi, %rbp
    call saved_stack_pointer
    call frame_pointer_is_data
    call remembered
    add $8, %rsp
    .cfi_adjust_cfa_offset -8
    pop %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbp
    pop %rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbx
    ret
    .cfi_endproc
    .size asm_shapes, . - asm_shapes

# As OpenSSL's assembly does it: the old stack pointer in rax first, then in a word of the aligned frame.
    .type saved_stack_pointer, @function
saved_stack_pointer:
    .cfi_startproc
    mov %rsp, %rax
    .cfi_def_cfa_register %rax
    sub $120, %rsp
    and $-64, %rsp
    mov %rax, 56(%rsp)
    # CFA = [rsp + 56] + 8
    .cfi_escape 0x0f, 0x05, 0x77, 0x38, 0x06, 0x23, 0x08
    mov %rbp, %rdi
    call *%rbx
    mov 56(%rsp), %rsi
    .cfi_def_cfa %rsi, 8
    mov %rsi, %rsp
    .cfi_def_cfa_register %rsp
    ret
    .cfi_endproc
    .size saved_stack_pointer, . - saved_stack_pointer

# rbp holds no frame pointer, and the frame grows and shrinks by pushes.
    .type frame_pointer_is_data, @function
frame_pointer_is_data:
    .cfi_startproc
    push %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbp, 0
    mov $12345, %ebp
    push %rbp
    .cfi_adjust_cfa_offset 8
    push %rbp
    .cfi_adjust_cfa_offset 8
    mov %rbp, %rdi
    call *%rbx
    pop %rbp
    .cfi_adjust_cfa_offset -8
    pop %rbp
    .cfi_adjust_cfa_offset -8
    pop %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbp
    ret
    .cfi_endproc
    .size frame_pointer_is_data, . - frame_pointer_is_data

# Two ways out, with states remembered and recalled.
    .type remembered, @function
remembered:
    .cfi_startproc
    sub $24, %rsp
    .cfi_adjust_cfa_offset 24
    .cfi_remember_state
    mov %rbp, %rdi
    call *%rbx
    test %rax, %rax
    jz 1f
    add $24, %rsp
    .cfi_adjust_cfa_offset -24
    ret
1:
    .cfi_restore_state
    add $24, %rsp
    .cfi_adjust_cfa_offset -24
    ret
    .cfi_endproc
    .size remembered, . - remembered
    .section .note.GNU-stack, "", @progbits
