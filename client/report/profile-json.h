/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A profile as JSON for programs. */
#pragma once

#include "client/base/json.h"
#include "client/report/profile.h"

/**
 * sonde_profile_json_add_tree:
 * @percent_limit: of the whole profile: lighter subtrees are left out
 *
 * Adds the members "functions" (objects with name and module) and "processes" (objects with pid,
 * comm, command line, total and nodes) to the object that @json is in. A node is an object with
 * function (index of functions), parent (index of the nodes of its process, -1 for none), total and
 * self; parents come first. Deep stacks thus make no deep JSON. Totals are in the profile's unit;
 * where it has another one beside that, the total in it is the member beside.
 */
void
sonde_profile_json_add_tree (SondeJson *json, const SondeProfile *profile, double percent_limit);

/* Adds the member @member: rows with name, module, self and total, heaviest first; beside is
 * of self. */
void sonde_profile_json_add_rows (SondeJson *json,
                                  const char *member,
                                  const SondeProfile *profile,
                                  double percent_limit);

/* What the limits cut off of @model, as an object "truncated": empty if nothing. */
void sonde_profile_json_add_truncated (SondeJson *json, const SondeCaptureModel *model);
