/*
 * The registers of a suspended context, for debuggers. The table describes the layout that the
 * assembly files define. The tests of the gdb script check the table.
 */
#ifndef WEFT_ARCH_SAVED_REGISTERS_H
#define WEFT_ARCH_SAVED_REGISTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef WEFT_UCONTEXT
#include <ucontext.h>
#endif

/* One register of a suspended context. */
typedef struct weft__saved_register {
    char name[8];  /* as in gdb; "": the end of the table */
    int32_t at;    /* relative to the sp of the context */
    bool is_value; /* the register is sp + at; otherwise the register is stored at sp + at */
} weft__saved_register;

#define WEFT__SAVED_REGISTERS_MAX 24

/* The members of each register: X(name, at, is_value). The program counter is first, then sp. */
#if defined(WEFT_UCONTEXT) && defined(__x86_64__)
/* The ucontext_t is at sp (context.c). */
#define WEFT__GREG_AT(index) ((int32_t)(offsetof(ucontext_t, uc_mcontext.gregs) + 8 * (index)))
#define WEFT__SAVED_REGISTERS(X)            \
    X("rip", WEFT__GREG_AT(REG_RIP), false) \
    X("rsp", WEFT__GREG_AT(REG_RSP), false) \
    X("rbp", WEFT__GREG_AT(REG_RBP), false) \
    X("rbx", WEFT__GREG_AT(REG_RBX), false) \
    X("r12", WEFT__GREG_AT(REG_R12), false) \
    X("r13", WEFT__GREG_AT(REG_R13), false) \
    X("r14", WEFT__GREG_AT(REG_R14), false) \
    X("r15", WEFT__GREG_AT(REG_R15), false)
#elif defined(__x86_64__) && !defined(WEFT_UCONTEXT)
#define WEFT__SAVED_REGISTERS(X) \
    X("rip", 0, false)           \
    X("rsp", 8, true)            \
    X("r15", -8, false)          \
    X("r14", -16, false)         \
    X("r13", -24, false)         \
    X("r12", -32, false)         \
    X("rbx", -40, false)         \
    X("rbp", -48, false)
#elif defined(__aarch64__) && !defined(WEFT_UCONTEXT)
#define WEFT__SAVED_REGISTERS(X) \
    X("pc", 88, false)           \
    X("sp", 160, true)           \
    X("x19", 0, false)           \
    X("x20", 8, false)           \
    X("x21", 16, false)          \
    X("x22", 24, false)          \
    X("x23", 32, false)          \
    X("x24", 40, false)          \
    X("x25", 48, false)          \
    X("x26", 56, false)          \
    X("x27", 64, false)          \
    X("x28", 72, false)          \
    X("x29", 80, false)          \
    X("x30", 88, false)
#else
#define WEFT__SAVED_REGISTERS(X) /* a debugger cannot show the frames */
#endif

#endif
