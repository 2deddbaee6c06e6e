/* dlsym_x86_64.S - the exported dlsym: filter, or jump to the real one.
 *
 * void *dlsym(void *handle, const char *name)       handle in rdi, name in rsi
 *
 * The real dlsym learns its caller from the return address, which RTLD_NEXT and RTLD_DEFAULT depend
 * on. So it is never called from here: it is jumped to with registers and stack as they came. Only a
 * look-up with an explicit handle and a name like "cuX..." asks lookup_filter() first, and jumps on
 * all the same when that has no answer. No lock, no state.
 */
        .text
        .globl  dlsym
        .type   dlsym, @function
        .p2align 4
dlsym:
        .cfi_startproc
        endbr64
        leaq    1(%rdi), %rax           /* RTLD_NEXT (-1) and RTLD_DEFAULT (0) become 0 and 1 */
        cmpq    $1, %rax
        jbe     .Ljump_on
        testq   %rsi, %rsi
        jz      .Ljump_on
        cmpb    $'c', (%rsi)
        jne     .Ljump_on
        cmpb    $'u', 1(%rsi)
        jne     .Ljump_on
        movzbl  2(%rsi), %eax
        subl    $'A', %eax
        cmpl    $25, %eax
        ja      .Ljump_on
        movq    (%rsp), %rdx            /* who asks */
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        call    lookup_filter
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        testq   %rax, %rax
        jz      .Ljump_on
        ret
.Ljump_on:
        movq    lookup_real_dlsym_pointer(%rip), %rax
        testq   %rax, %rax
        jz      .Lfind
        jmp     *%rax
.Lfind:
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        call    lookup_init
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        testq   %rax, %rax
        jz      .Lnone
        jmp     *%rax
.Lnone:
        xorl    %eax, %eax
        ret
        .cfi_endproc
        .size   dlsym, .-dlsym
        .section .note.GNU-stack,"",@progbits
