# Read behind the suite's own support/aofmanifest.tcl. Tests of the append only file lay files for a server to start
# with, and take them away: with us the data is in more files than those of the log, and the manifest is ours after a
# start. Without this, a server would start on the tree of the test before.

# `place`: the log's directory, or the server's, where a Redis before 7.0 has its log.
proc remove_store {place} {
    foreach directory [list $place [file dirname $place]] {
        foreach name {tree undo store-id LOCK import-journal imported-*} {
            file delete -force {*}[glob -nocomplain -directory $directory $name]
        }
    }
}

# The suite reads its file again for each unit, which defines its own anew.
foreach name {suite_clean_aof_persistence suite_create_aof suite_create_aof_manifest suite_start_server_aof} {
    if {[info commands $name] ne ""} { rename $name "" }
}

rename clean_aof_persistence suite_clean_aof_persistence
proc clean_aof_persistence {log_directory} {
    suite_clean_aof_persistence $log_directory
    remove_store $log_directory
    unset -nocomplain ::manifests($log_directory)
}

rename create_aof_manifest suite_create_aof_manifest
proc create_aof_manifest {log_directory file code} {
    uplevel 1 [list suite_create_aof_manifest $log_directory $file $code]
    set channel [open $file r]
    set ::manifests($log_directory) [list $file [read $channel]]
    close $channel
}

rename create_aof suite_create_aof
proc create_aof {log_directory file code} {
    remove_store $log_directory
    uplevel 1 [list suite_create_aof $log_directory $file $code]
    if {[info exists ::manifests($log_directory)]} {
        lassign $::manifests($log_directory) manifest text
        set channel [open $manifest w]
        puts -nonewline $channel $text
        close $channel
    }
}

# As the suite's own, but the server goes with a test that fails, too, and what it leaves: the next test would find both.
rename start_server_aof suite_start_server_aof
proc start_server_aof {overrides code} {
    upvar defaults defaults srv srv server_path server_path
    set srv [start_server [list overrides [concat $defaults $overrides]]]
    set failed [catch {uplevel 1 $code} result outcome]
    kill_server $srv
    if {$failed} {
        set directory [dict get $srv config dir]
        clean_aof_persistence $directory/appendonlydir
        file delete {*}[glob -nocomplain -directory $directory appendonly.aof*]
        return -options $outcome $result
    }
}

# redis-check-aof is for the log that the test has laid. A server that has taken that over keeps it aside, and it is laid
# again.
proc lay_again {log_directory} {
    set directory [file dirname $log_directory]
    foreach aside [glob -nocomplain $directory/imported-*/[file tail $log_directory]] {
        file delete -force $log_directory
        file rename $aside $log_directory
        remove_store $log_directory
    }
}

if {[info commands suite_exec] eq ""} {
    rename exec suite_exec
    proc exec {args} {
        if {[lindex $args 0] eq "src/redis-check-aof"} { lay_again [file dirname [lindex $args end]] }
        tailcall suite_exec {*}$args
    }
}
