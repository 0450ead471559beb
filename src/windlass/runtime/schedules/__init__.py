"""Schedules as the host sees them: their times by calendars and time zones, and what their occurrences begin."""
