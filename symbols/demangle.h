/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* C++ names as people write them. */
#pragma once

/* A copy of @name, demangled by the C++ runtime's __cxa_demangle if it is a mangled C++ name and
 * not longer than 4096 bytes, as it is otherwise. free() it; NULL on ENOMEM. */
char *sonde_demangle (const char *name);
