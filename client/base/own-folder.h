/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Opens a folder that is the user's own, in a place that is: nobody else can exchange it. */
#pragma once

/**
 * sonde_own_folder_open:
 * @place: a folder of the user's; one in the environment may be another's, whose rights we took
 * @name: of the folder in it, which is made if it is not there
 *
 * Others cannot look into it afterwards. What is in the place of the folder is not followed.
 *
 * Returns: a descriptor, or -1 with errno: EPERM one of the two is not the user's, or others may
 *   write there
 */
int sonde_own_folder_open (const char *place, const char *name);
