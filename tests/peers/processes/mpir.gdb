# A debugger that knows only MPIR: what the interface lets it know, and nothing else. What follows the table is up to the test.
set debuginfod enabled off
set confirm off
set pagination off
set language c
set breakpoint pending off
tbreak main
run
set var *(int *)&MPIR_being_debugged = 1
# the launcher may end while it is asked
handle SIGPIPE nostop noprint pass
break MPIR_Breakpoint
continue
printf "state %d, ranks %d\n", *(int *)&MPIR_debug_state, *(int *)&MPIR_proctable_size
if *(int *)&MPIR_debug_state == 2
    printf "aborted: %s\n", *(char **)&MPIR_debug_abort_string
end
set $row = *(char **)&MPIR_proctable
set $rank = 0
while $rank < *(int *)&MPIR_proctable_size
    printf "rank %d: %s %s %d\n", $rank, *(char **)$row, *(char **)($row + 8), *(int *)($row + 16)
    eval "shell tr '\\0' '\\n' < /proc/%d/environ | grep ^PMIX_RANK=", *(int *)($row + 16)
    set $row = $row + 24
    set $rank = $rank + 1
end
