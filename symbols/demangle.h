/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Turns mangled C++ and Rust names into those that people write. */
#pragma once

/* A copy of @name, demangled if it is a mangled name and not longer than 4096 bytes: by the C++
 * runtime's __cxa_demangle, or by libiberty if it is one of Rust ("_R...", or "_ZN...17h...E"; the
 * hash is left out). As it is otherwise. free() it; NULL on ENOMEM. */
char *sonde_demangle (const char *name);
