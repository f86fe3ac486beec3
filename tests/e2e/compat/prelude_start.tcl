# Read behind the suite's own support/util.tcl, the last of its files. A server that ends instead of starting fails the
# test that starts it, or is reported as "[err]: BLOCK file: why", and the rest of the file goes on. The suite itself waits
# for its line "Ready to accept" without end.

#
# A block that is nothing but SCRIPT DEBUG is left out: there is no debugger of scripts. So is one that asks the allocator
# of redis-server itself: its error would end the file.

rename start_server suite_start_server
proc start_server {options {code undefined}} {
    if {[string match "r script debug sync*" [string trim $code]]} return
    if {[string match "*r debug mallctl arenas.page*" $code]} return
    set tags $::tags
    set ::starting ""
    # A test that fails inside a server of its own: the suite takes two servers from its stack then, that one and the one
    # that all other tests of the file need. So the failure waits until the test's server has ended as after a success.
    set inside [expr {$::cur_test ne "" && $code ne "undefined"}]
    if {$inside} {
        set block ::block_[incr ::blocks]
        set code "set $block \[list \[catch [list $code] ${block}_result ${block}_options\] \$${block}_result \$${block}_options\]"
        set $block {0 {} {}}
    }
    set failed [catch {uplevel 1 [list suite_start_server $options $code]} result outcome]
    if {!$failed && $inside} {
        lassign [set $block] status text details
        if {$status == 1} { return -options $details $text }
    }
    if {!$failed} { return $result }
    if {![string match "the server has ended*" $result] || $::cur_test ne ""} {
        return -options $outcome $result
    }
    set ::tags $tags
    send_data_packet $::test_server_fd err "BLOCK $::curfile: $result"
}

rename spawn_server suite_spawn_server
proc spawn_server {config_file stdout stderr args} {
    set pid [suite_spawn_server $config_file $stdout $stderr {*}$args]
    set ::starting [dict create pid $pid stdout $stdout stderr $stderr]
    return $pid
}

proc fail_if_it_has_ended {} {
    if {$::starting eq "" || [is_alive $::starting]} return
    set text [exec cat [dict get $::starting stdout] [dict get $::starting stderr]]
    set ::starting ""
    start_server_error "" $text
}

# The suite reports it and goes on: a test that lets nothing but its servers' code check anything would pass.
proc start_server_error {config_file error} {
    error "the server has ended: [lindex [split [string trim $error] \n] end]"
}

rename wait_server_started suite_wait_server_started
proc wait_server_started {config_file stdout pid} {
    while {![regexp -- " PID: $pid|Failed listening on port" [exec cat $stdout]]} {
        fail_if_it_has_ended
        after 10
    }
    return [suite_wait_server_started $config_file $stdout $pid]
}

rename count_message_lines suite_count_message_lines
proc count_message_lines {file pattern} {
    set count [suite_count_message_lines $file $pattern]
    if {$pattern eq "Ready to accept" && [lindex [info level -1] 0] eq "suite_start_server"} {
        if {$::starting ne "" && $count == $::ready_before} fail_if_it_has_ended
        if {$::starting eq ""} { set ::ready_before $count }
    }
    return $count
}
