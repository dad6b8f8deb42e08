/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Walks a mangled name of Rust, to tell whether it may be given to libiberty. */
#pragma once

#include <stdbool.h>

/**
 * sonde_rust_name_is_bounded:
 * @name: begins with "_R"
 *
 * libiberty counts the lifetimes of a binder ("G...") one by one, up to 2^64 of them, without a
 * word where it prints nothing: it cannot be stopped then. So the name is read first, with all that
 * it refers back to, in a bounded number of steps. FALSE also for what is no name.
 *
 * Source: Rust RFC 2603
 */
bool sonde_rust_name_is_bounded (const char *name);
