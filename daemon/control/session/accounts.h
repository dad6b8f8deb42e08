/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* CPU time and memory of sessions, charged to the uids of their owners: shares, and a guard. */
#pragma once

#include "daemon/control/session/session.h"
#include "daemon/control/system/settings.h"

/**
 * SECTION: accounts
 *
 * What a session costs runs under uids of its own, outside of the control groups of its owner: the
 * kernel does not count it as his. So each uid has a budget, uid-cpu-percent and uid-memory-bytes.
 * It is divided by the uid's sessions, at each start and end, and systemd is told what each unit
 * may have of it.
 *
 * Where the kernel bounds nobody (no systemd, no controllers) a guard does. It looks once a second
 * at what the sessions of a uid took together. What is beyond the budget is a debt, which less use
 * pays back. Beyond SONDE_LIMIT_BUDGET_MS of the budget those that take more than their part record
 * nothing until it is paid, and what is beyond twice that is forgiven; who is there for the third
 * time loses the dearest session. Both are told in the capture and the journal. How often it was is
 * forgotten SONDE_LIMIT_BUDGET_FORGET_US after the last debt.
 *
 * Root, who may do all this by himself, has no budget.
 */
typedef struct SondeAccounts SondeAccounts;

/* @settings: outliving it; a change of them holds from the next look on */
SondeAccounts *sonde_accounts_new (const SondeSettings *settings);
void sonde_accounts_free (SondeAccounts *self);

/* @session has a worker; it is removed before it is freed. */
void sonde_accounts_add (SondeAccounts *self, SondeSession *session);
void sonde_accounts_remove (SondeAccounts *self, SondeSession *session);
