# Read behind the suite's own support/aofmanifest.tcl. Tests of the append only file lay files for a server to start
# with, and take them away: with us the data is in more files than those of the log, and the manifest is ours after a
# start. Without this, a server would start on the tree of the test before.

proc remove_store {log_directory} {
    set directory [file dirname $log_directory]
    foreach name {tree undo store-id LOCK imported-*} {
        file delete -force {*}[glob -nocomplain -directory $directory $name]
    }
}

# The suite reads its file again for each unit, which defines its own anew.
foreach name {suite_clean_aof_persistence suite_create_aof suite_create_aof_manifest} {
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
