/* dlsym_aarch64.S - the exported dlsym: filter, or jump to the real one.
 *
 * void *dlsym(void *handle, const char *name)       handle in x0, name in x1
 *
 * The real dlsym learns its caller from the link register, which RTLD_NEXT and RTLD_DEFAULT depend
 * on. So it is never called from here: it is branched to with registers as they came. Only a look-up
 * with an explicit handle and a name like "cuX..." asks lookup_filter() first, and branches on all
 * the same when that has no answer. No lock, no state.
 */
        .text
        .globl  dlsym
        .type   dlsym, %function
        .p2align 4
dlsym:
        .cfi_startproc
        hint    #34                     /* bti c */
        add     x9, x0, #1              /* RTLD_NEXT (-1) and RTLD_DEFAULT (0) become 0 and 1 */
        cmp     x9, #1
        b.ls    .Ljump_on
        cbz     x1, .Ljump_on
        ldrb    w9, [x1]
        cmp     w9, #'c'
        b.ne    .Ljump_on
        ldrb    w9, [x1, #1]
        cmp     w9, #'u'
        b.ne    .Ljump_on
        ldrb    w9, [x1, #2]
        sub     w9, w9, #'A'
        cmp     w9, #25
        b.hi    .Ljump_on
        stp     x29, x30, [sp, #-32]!
        .cfi_def_cfa_offset 32
        .cfi_offset 29, -32
        .cfi_offset 30, -24
        stp     x0, x1, [sp, #16]
        mov     x29, sp
        mov     x2, x30                 /* who asks */
        bl      lookup_filter
        mov     x9, x0
        ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #32
        .cfi_def_cfa_offset 0
        .cfi_restore 29
        .cfi_restore 30
        cbz     x9, .Ljump_on
        mov     x0, x9
        ret
.Ljump_on:
        adrp    x16, lookup_real_dlsym_pointer
        ldr     x16, [x16, #:lo12:lookup_real_dlsym_pointer]
        cbz     x16, .Lfind
        br      x16
.Lfind:
        stp     x29, x30, [sp, #-32]!
        .cfi_def_cfa_offset 32
        .cfi_offset 29, -32
        .cfi_offset 30, -24
        stp     x0, x1, [sp, #16]
        mov     x29, sp
        bl      lookup_init
        mov     x16, x0
        ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #32
        .cfi_def_cfa_offset 0
        .cfi_restore 29
        .cfi_restore 30
        cbz     x16, .Lnone
        br      x16
.Lnone:
        mov     x0, #0
        ret
        .cfi_endproc
        .size   dlsym, .-dlsym
        .section .note.GNU-stack,"",%progbits
