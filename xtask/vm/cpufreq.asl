// The performance states of an emulated PC (QEMU's q35, two CPUs), which its firmware does not have: with this table the driver acpi-cpufreq of an
// unmodified kernel finds two frequency domains of four frequencies each. ACPI 6.5, section 8.4.5 (_PCT, _PSS, _PSD, _PPC).
//
// The control and status registers of a domain are one port that keeps the byte it was last given: the scratch register of a serial interface, as the
// driver checks what it has written. The console uses the first interface, and has no use for that register.
DefinitionBlock ("", "SSDT", 2, "TAKT", "FREQS", 1)
{
    External (\_SB.CPUS.C000, DeviceObj)
    External (\_SB.CPUS.C001, DeviceObj)

    // Frequency in MHz, power in mW, latencies in us, and the values of control and status.
    Name (STAT, Package ()
    {
        Package () { 2000, 30000, 10, 10, 4, 4 },
        Package () { 1500, 18000, 10, 10, 3, 3 },
        Package () { 1000, 10000, 10, 10, 2, 2 },
        Package () { 500, 6000, 10, 10, 1, 1 }
    })

    Scope (\_SB.CPUS.C000)
    {
        Method (_PSS, 0) { Return (STAT) }
        Method (_PPC, 0) { Return (0) }
        Name (_PCT, Package ()
        {
            ResourceTemplate () { Register (SystemIO, 8, 0, 0x2FF) },
            ResourceTemplate () { Register (SystemIO, 8, 0, 0x2FF) }
        })
        // Five entries, revision, domain, coordinated by software (0xFC), one CPU.
        Name (_PSD, Package () { Package () { 5, 0, 0, 0xFC, 1 } })
    }

    Scope (\_SB.CPUS.C001)
    {
        Method (_PSS, 0) { Return (STAT) }
        Method (_PPC, 0) { Return (0) }
        Name (_PCT, Package ()
        {
            ResourceTemplate () { Register (SystemIO, 8, 0, 0x3FF) },
            ResourceTemplate () { Register (SystemIO, 8, 0, 0x3FF) }
        })
        Name (_PSD, Package () { Package () { 5, 0, 1, 0xFC, 1 } })
    }
}
