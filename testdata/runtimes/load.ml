(* The load of ocaml: calls, garbage, maps, exceptions. *)
module M = Map.Make (String)

let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)

let garbage () =
  let l = List.init 20000 (fun i -> (i * 7919 mod 10007, string_of_int i)) in
  let l = List.sort compare l in
  List.fold_left (fun m (_, s) -> M.add s (String.length s) m) M.empty l |> M.cardinal

exception Bottom

let rec throwing n = if n = 0 then raise Bottom else 1 + throwing (n - 1)

let () =
  let finish = Unix.gettimeofday () +. float_of_string Sys.argv.(1) in
  let sum = ref 0 in
  while Unix.gettimeofday () < finish do
    sum := !sum + fib 24 + garbage ();
    for _ = 1 to 100 do
      try ignore (throwing 50) with Bottom -> incr sum
    done;
    sum := !sum + String.length (Printf.sprintf "%d %f %s" !sum 1.5 (String.make 1000 'x'))
  done;
  print_int !sum
