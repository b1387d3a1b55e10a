"""The words that the script of the files page says."""

from __future__ import annotations

from django.utils.translation import gettext as _

from files.words import WORDS


def texts() -> dict[str, str]:
    """Return them by key. ``%(name)s`` are places; ``…_one`` is said of exactly one."""
    codes = {f"code:{code}": str(text) for code, text in WORDS.items()}
    return {**codes, **_page(), **_acts(), **_uploads(), **_looks()}


def _page() -> dict[str, str]:
    return {
        "opening": _("Opening the files…"),
        "waiting": _("Waiting for the files to open: %(why)s"),
        "slow": _("it takes longer than usual, and goes on by itself"),
        "failed": _("The files could not be opened. %(why)s"),
        "busy": _("Much of this volume is being looked through; yours comes next…"),
        "closed": _("The files were closed because nobody used them for a while."),
        "lost": _("The connection was lost. Check the network and try again."),
        "loading": _("Loading…"),
        "name": _("Name"),
        "size": _("Size"),
        "kind:folder": _("Folder"),
        "kind:file": _("File"),
        "kind:link": _("Link"),
        "kind:other": _("Special file"),
        "leads": _("Link to %(target)s; links are never followed."),
        "shown": _("%(shown)s of %(total)s"),
        "items": _("%(n)s items"),
        "items_one": _("1 item"),
        "files": _("%(n)s files"),
        "files_one": _("1 file"),
        "folders": _("%(n)s folders"),
        "folders_one": _("1 folder"),
        "truncated": _("There is more in this folder than can be listed; search finds the rest."),
        "more": _("Show more"),
        "select": _("Select %(name)s"),
        "download": _("Download"),
    }


def _acts() -> dict[str, str]:
    return {
        "chosen": _("%(n)s selected"),
        "chosen_one": _("1 selected"),
        "folder_name": _("Name of the new folder"),
        "rename": _("Rename %(name)s"),
        "delete": _("Delete"),
        "delete_title": _("Delete %(n)s items?"),
        "delete_title_one": _("Delete “%(name)s”?"),
        "counting": _("Counting what will be deleted…"),
        "delete_lost": _("This will be deleted: %(files)s, %(folders)s, %(size)s."),
        "delete_more": _("This will be deleted: more than %(files)s, %(size)s."),
        "delete_undo": _("It can be brought back for %(minutes)s minutes."),
        "deleted": _("%(n)s items were deleted."),
        "deleted_one": _("“%(name)s” was deleted."),
        "undo": _("Undo"),
        "restored": _("It is back."),
        "moving": _("%(n)s items to move"),
        "moving_one": _("“%(name)s” is to be moved"),
        "copying": _("%(n)s items to copy"),
        "copying_one": _("“%(name)s” is to be copied"),
        "move_here": _("Move here"),
        "copy_here": _("Copy here"),
        "copied": _("Copied: %(files)s, %(size)s."),
        "copy_begins": _("Copying…"),
        "copy_progress": _("Copying: %(files)s, %(size)s…"),
        "copy_of": _("Copying: %(files)s, %(size)s of %(all)s…"),
        "copy_bar": _("Progress of the copying"),
        "copy_ended": _("The copying was cancelled. What was copied whole stays, nothing else."),
        "left_out": _("%(n)s things were left out: links and special files are not copied."),
        "left_out_one": _("1 thing was left out: links and special files are not copied."),
        "moved": _("Moved."),
        "extract_begins": _("Unpacking “%(name)s”…"),
        "extract_reading": _("Looking into “%(name)s”: %(files)s, %(size)s…"),
        "extract_writing": _("Unpacking “%(name)s”: %(files)s, %(size)s of %(all)s…"),
        "extract_bar": _("Progress of the unpacking"),
        "extract_ended": _("Unpacking “%(name)s” was cancelled; nothing of it is left."),
        "extracted": _("Unpacked into “%(name)s”: %(files)s, %(size)s."),
        "extract_left": _(
            "%(n)s things were left out: links, special files, or names that can't be here."
        ),
        "extract_left_one": _(
            "1 thing was left out: a link, a special file, or a name that can't be here."
        ),
        "names_utf-8": _("Its names were read as UTF-8."),
        "names_cp932": _("Its names were read as Shift-JIS."),
        "names_cp437": _("It does not say how its names are written; they may look wrong."),
        "refused": _("“%(name)s”: %(why)s"),
        "cancel": _("Cancel"),
        "ok": _("OK"),
        "slash": _("A name can't hold “/”."),
    }


def _uploads() -> dict[str, str]:
    return {
        "uploading": _("Uploading %(done)s of %(all)s · %(sent)s of %(size)s"),
        "upload_bar": _("Progress of the uploads"),
        "rate": _("%(rate)s/s · %(left)s left"),
        "h": _("%(n)s h"),
        "min": _("%(n)s min"),
        "s": _("%(n)s s"),
        "paused": _("Paused: %(done)s of %(all)s · %(sent)s of %(size)s"),
        "pause": _("Pause"),
        "resume": _("Go on"),
        "uploaded": _("%(n)s files were uploaded."),
        "uploaded_one": _("“%(name)s” was uploaded."),
        "upload_failed": _("%(n)s files could not be uploaded."),
        "upload_failed_one": _("“%(name)s” could not be uploaded."),
        "unfinished": _(
            "%(n)s uploads were interrupted. Choose the same files again and they go on where"
            " they were: %(names)s"
        ),
        "unfinished_one": _(
            "An upload was interrupted. Choose the same file again and it goes on where it was:"
            " %(names)s"
        ),
        "choose_again": _("Choose files"),
        "forget": _("Give them up"),
        "conflict": _("“%(name)s” is there already"),
        "conflict_text": _("What should become of the file that is uploaded?"),
        "replace": _("Replace what is there"),
        "keep_both": _("Keep both"),
        "skip": _("Skip it"),
        "for_all": _("Do the same with all others"),
        "retrying": _("The connection was lost; trying again in %(n)s s."),
    }


def _looks() -> dict[str, str]:
    return {
        "preview": _("Preview of %(name)s"),
        "no_preview": _("There is no preview of this kind of file."),
        "cut": _("Only the beginning is shown."),
        "encoding": _("Read as %(encoding)s."),
        "too_large": _("This picture is too large to be shown here."),
        "broken_image": _("This picture can't be read."),
        "image": _("Picture: %(name)s"),
        "cells": _("%(n)s cells"),
        "cells_one": _("1 cell"),
        "in": _("In [%(n)s]"),
        "omitted": _("Output of the kind %(mime)s is not shown."),
        "usage": _("What takes room here"),
        "usage_sum": _("%(size)s in %(files)s and %(folders)s"),
        "usage_free": _("%(size)s free"),
        "counting_usage": _("Adding up…"),
        "usage_partly": _("This took too long; what is shown is a part of it."),
        "found": _("%(n)s found"),
        "found_one": _("1 found"),
        "found_none": _("Nothing of that name was found below this folder."),
        "searching": _("Searching: %(n)s names looked at…"),
        "searching_one": _("Searching: 1 name looked at…"),
        "search_partly": _("There may be more: the search ended early. Say more of the name."),
        "stop": _("Stop"),
        "close": _("Close"),
        "back": _("Back to the files"),
    }
