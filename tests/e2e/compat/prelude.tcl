# Read behind the suite's own support/test.tcl. It keeps one failure from taking others with it:
#
# - When the set-up of a block of tests fails (a CONFIG SET of its parameters, say), the block is lost and
#   reported as "[err]: BLOCK file: why", and the rest of the file goes on.
# - After a test that failed, the tests behind it get a new connection: they must not find the MULTI, the MONITOR or
#   the unread reply that it has left. A script or a function without end that it has left is ended, and so is a
#   bound of memory.

rename run_external_server_test suite_run_external_server_test
proc run_external_server_test {code overrides} {
    set stack $::servers
    if {[catch {uplevel 1 [list suite_run_external_server_test $code $overrides]} reason]} {
        set ::servers $stack
        send_data_packet $::test_server_fd err "BLOCK $::curfile: $reason"
    }
}

rename test suite_test
proc test {args} {
    set failed $::num_failed
    uplevel 1 [list suite_test {*}$args]
    if {$::num_failed == $failed} return
    # In the tests of users it acts as one of them, as whom those behind it go on.
    if {[string match "tests/unit/acl*" $::curfile]} return
    # Of a server that goes the old connection stays, which the suite closes later.
    catch {
        set server [lindex $::servers end]
        set client [redis [dict get $server host] [dict get $server port] 0 $::tls]
        if {![dict exists $server config requirepass] && !$::singledb} { $client select 9 }
        [dict get $server client] close
        dict set server client $client
        lset ::servers end $server
        catch {$client script kill}
        catch {$client function kill}
        catch {$client config set maxmemory 0}
    }
}
