(* SPDX-License-Identifier: LGPL-2.1-or-later *)
(* work SECONDS *)
let sum = ref 0

let[@inline never] leaf rounds =
  for i = 1 to rounds do
    sum := !sum + (i * i)
  done

let[@inline never] middle finish =
  while Sys.time () < finish do
    leaf 100000
  done;
  incr sum

let[@inline never] outer finish =
  middle finish;
  incr sum

let () = outer (float_of_string Sys.argv.(1))
